package caddymodule
import (
 _ "github.com/tidwall/gjson"
 _ "go.uber.org/zap"
)
