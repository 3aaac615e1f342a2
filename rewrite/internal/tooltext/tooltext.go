// Package tooltext makes what leaves of the arguments and results of tools (contract section 8): JSON that
// every client reads, of bounded length, and cut with a note. Whatever the texts are, no value has a
// line feed, half of a pair of surrogates, or a number that Python cannot read.
package tooltext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

const (
	// maxArgsDepth is how deep an object of arguments may be nested: clients read JSON recursively.
	maxArgsDepth = 32
	// maxNumber is the length of the longest number in it: Python refuses one of thousands of digits.
	maxNumber = 64
	// maxIndented is how deep a result may be nested whose values get lines of their own: each line is as
	// much longer.
	maxIndented = 16
)

// Args returns the arguments with the text, which the model wrote: an object if that is one, and
// otherwise a string. It returns nil if there is no text.
func Args(text string) []byte {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	if args := object(strings.ToValidUTF8(text, "\ufffd")); args != nil {
		return bytes.Clone(args) // without the room for white space
	}
	return Quote(text, contract.MaxDetail)
}

// object returns the object that the text is, without white space between its values, or nil if it is
// none, or not one for every client, or longer than contract.MaxDetail.
func object(text string) []byte {
	b := []byte(text)
	if b[0] != '{' || !jsonspan.ValidWithin(b, maxArgsDepth) {
		return nil
	}
	return mapStrings(b, contract.MaxDetail, func(s string) string { return s })
}

// mapStrings returns the well-formed object b without white space between its values, and with f of each
// string. It returns nil if a number or a word is none that every client reads, or if that is longer than
// "most" bytes.
func mapStrings(b []byte, most int, f func(string) string) []byte {
	out := make([]byte, 0, min(len(b), most))
	for i := 0; i < len(b) && len(out) <= most; {
		switch c := b[i]; {
		case c == '"':
			end := jsonspan.SkipString(b, i)
			if (end-i)/len(`\u0000`) > most {
				return nil
			}
			out = append(out, jsonspan.Quote(f(jsonspan.Unquote(b[i:end])))...)
			i = end
		case strings.IndexByte("{}[],:", c) >= 0:
			out = append(out, c)
			i++
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
		default:
			n := bytes.IndexAny(b[i:], "{}[],: \t\r\n")
			word := string(b[i : i+n])
			if !isWord(word) {
				return nil
			}
			out = append(out, word...)
			i += n
		}
	}
	if len(out) > most {
		return nil
	}
	return out
}

// isWord reports whether every client reads the number or the word.
func isWord(s string) bool {
	if s == "true" || s == "false" || s == "null" {
		return true
	}
	_, err := strconv.ParseFloat(s, 64) // it is an error if it overflows
	return err == nil && len(s) <= maxNumber && s[len(s)-1] >= '0' && s[len(s)-1] <= '9'
}

// Result returns the result of a tool with the text, a JSON string.
func Result(text string) []byte { return Quote(text, contract.MaxDetail) }

// Quote returns text as a JSON string of at most "most" bytes. A longer text ends with a note.
func Quote(text string, most int) []byte { return quote(text, most, len(text)) }

// quote is Quote of a text of "all" bytes, which begins with text.
func quote(text string, most, all int) []byte {
	head := text[:min(len(text), most)]
	raw := jsonspan.Quote(head)
	if len(head) == all && len(raw) <= most {
		return raw
	}
	for range utf8.UTFMax - 1 { // the last character may be cut
		if r, n := utf8.DecodeLastRuneInString(head); len(head) < all && r == utf8.RuneError && n == 1 {
			head = head[:len(head)-1]
		}
	}
	note := fmt.Sprintf("… [cut here: all of it has %d bytes]", all)
	inner := jsonspan.Head(jsonspan.Inside(jsonspan.Quote(head)), most-len(note)-len(`""`))
	return fmt.Appendf(nil, `"%s%s"`, inner, note)
}

// Of returns the text of a JSON value: that of a string, or the value itself.
func Of(value []byte) string {
	if len(value) > 0 && value[0] == '"' {
		return jsonspan.Unquote(value)
	}
	return string(value)
}

// ShownArgs returns the text of args, as Args returns them, as users read it, a JSON string.
func ShownArgs(args []byte) []byte {
	if args[0] == '"' {
		return Shown("", Of(args))
	}
	return Quote(string(mapStrings(args, math.MaxInt, marker.Text)), contract.MaxDetail)
}

// Indent returns a result that is an object or an array with its values on lines of their own, and any
// other as it is: also one of which a card shows only the beginning, or that is nested deeply.
func Indent(result string) string {
	text := strings.TrimSpace(result)
	if len(text) > contract.MaxDetail || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || !jsonspan.ValidWithin([]byte(text), maxIndented) {
		return result
	}
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return result
	}
	return out.String()
}

// Shown returns head and a text of a tool's as users read it, a JSON string.
func Shown(head, text string) []byte {
	const longest = len("\r\n") * contract.MaxDetail // of the beginning that is shown
	shown := head + marker.Text(strings.ToValidUTF8(text[:min(len(text), longest)], "\ufffd"))
	if len(text) <= longest {
		return Quote(shown, contract.MaxDetail)
	}
	return quote(shown, contract.MaxDetail, len(head)+len(text))
}

// Failed reports whether the result of a tool says that the tool has failed: it is an object, and
// exit_code is a number other than 0, error says something, or success is false.
func Failed(result string) bool {
	b := []byte(strings.TrimSpace(result))
	all := jsonspan.Span{To: len(b)}
	if !all.IsObject(b) || !jsonspan.Valid(b) {
		return false
	}
	code, _ := strconv.ParseFloat(string(jsonspan.MemberOf(b, all, "exit_code").Of(b)), 64) // 0 for what is no number
	says := string(jsonspan.MemberOf(b, all, "error").Of(b))
	return code != 0 || strings.Trim(says, "\"{}[] \t\r\n") != "" && says != "null" && says != "false" ||
		jsonspan.MemberOf(b, all, "success").Is(b, "false")
}
