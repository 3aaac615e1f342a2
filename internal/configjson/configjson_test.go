package configjson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

type fields struct {
	Switch  bool                      `json:"switch,omitempty"`
	Unless  *bool                     `json:"unless,omitempty"`
	Size    int64                     `json:"size,omitempty"`
	Number  *int                      `json:"number,omitempty"`
	Time    caddy.Duration            `json:"time,omitempty"`
	Or      *caddy.Duration           `json:"or,omitempty"`
	Word    string                    `json:"word,omitempty"`
	Words   []string                  `json:"words,omitempty"`
	ByName  map[string]string         `json:"by_name,omitempty"`
	Times   map[string]caddy.Duration `json:"times,omitempty"`
	Module  json.RawMessage           `json:"module,omitempty"`
	Details *struct {
		Text bool   `json:"text,omitempty"`
		By   string `json:"by,omitempty"`
	} `json:"details,omitempty"`
}

// The error of a value of another type names the option and says what to write. It shows no text.
func TestValuesOfAnotherType(t *testing.T) {
	const (
		isBool     = "must be true or false, without quotes"
		isNumber   = "must be a whole number, without quotes or a unit"
		isDuration = `must be a quoted duration, such as "30s", or the number 0`
		isText     = "must be a quoted string"
	)
	for text, want := range map[string]string{
		`{"switch":"on"}`:                 `invalid switch "on": ` + isBool,
		`{"Switch":"off"}`:                `invalid Switch "off": ` + isBool,
		`{"unless":"off"}`:                `invalid unless "off": ` + isBool,
		`{"unless":0}`:                    `invalid unless 0: ` + isBool,
		`{"switch":[]}`:                   `invalid switch (a list): ` + isBool,
		`{"size":"1MiB"}`:                 `invalid size "1MiB": ` + isNumber + `: 1048576`,
		`{"size":"huge"}`:                 `invalid size "huge": ` + isNumber,
		`{"size":1.5}`:                    `invalid size 1.5: ` + isNumber,
		`{"number":"3"}`:                  `invalid number "3": ` + isNumber + `: 3`,
		`{"number":false}`:                `invalid number false: ` + isNumber,
		`{"number":99999999999999999999}`: `invalid number 99999999999999999999: ` + isNumber,
		`{"time":"off"}`:                  `invalid time "off": ` + isDuration,
		`{"or":"off"}`:                    `invalid or "off": ` + isDuration,
		`{"or":false}`:                    `invalid or false: ` + isDuration,
		`{"or":"soon"}`:                   `invalid or "soon": ` + isDuration,
		`{"or":{}}`:                       `invalid or (an object): ` + isDuration,
		`{"word":false}`:                  `invalid word false: ` + isText + `, such as "off"`,
		`{"word":true}`:                   `invalid word true: ` + isText + `, such as "on"`,
		`{"word":5}`:                      `invalid word (a value of another type): ` + isText,
		`{"word":["a"]}`:                  `invalid word (a list): ` + isText,
		`{"words":"a"}`:                   `invalid words (a value of another type): must be a list`,
		`{"words":["a",5]}`:               `invalid words (a value of another type): ` + isText,
		`{"by_name":"a b"}`:               `invalid by_name (a value of another type): must be an object`,
		`{"by_name":{"a":["b"]}}`:         `invalid by_name a (a list): ` + isText,
		`{"times":{"chat":"off"}}`:        `invalid times chat "off": ` + isDuration,
		`{"details":true}`:                `invalid details true: must be an object`,
		`{"details":{"text":"on"}}`:       `invalid details text "on": ` + isBool,
		`{"size":"` + strings.Repeat("a", 50) + `"}`: `invalid size (a value of another type): ` + isNumber,
		`{"unknown":1}`:             `json: unknown field "unknown"`,
		`{"details":{"unknown":1}}`: `json: unknown field "unknown"`,
		`[]`:                        `json: cannot unmarshal array`,
	} {
		err := Unmarshal([]byte(text), new(fields))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// What fits passes.
func TestValuesThatFit(t *testing.T) {
	f := new(fields)
	err := Unmarshal([]byte(`{"switch":true,"unless":false,"size":1048576,"number":3,"time":"1m","or":0,"word":"off","words":["a"],"by_name":{"a":"b"},
		"times":{"chat":"1s","runs":5},"module":{"module":"redis","tls":"on"},"details":{"text":true,"by":null}}`), f)
	if err != nil || !f.Switch || *f.Unless || *f.Number != 3 || f.Details == nil || !f.Details.Text || len(f.Times) != 2 {
		t.Errorf("%v, %+v", err, f)
	}
}
