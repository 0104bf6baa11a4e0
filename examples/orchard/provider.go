// An Orchard provider: `echo` gives its text back, `noop` does nothing.
package main

import (
	"encoding/json"
	"os"
	"strings"
)

const schema = `{"name":"echo","version":"0.1.0","protocol":"1",` +
	`"config":{"greeting":{"type":"string","default":"","description":"word put first"}},` +
	`"actions":{"echo":{"description":"gives its text back",` +
	`"attrs":{"text":{"type":"string","required":true},"times":{"type":"number","default":1}},` +
	`"outputs":{"type":"object({text=string,times=number})"}},"noop":{"description":"does nothing"}}}`

type object = map[string]any
type request struct {
	ID     int64
	Method string
	Params struct {
		Config struct{ Greeting string }
		Action string
		Attrs  struct {
			Text  string
			Times int
		}
	}
}

func refusal(code, message string) object { return object{"code": code, "message": message} }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "schema" {
		_, _ = os.Stdout.WriteString(schema + "\n")
		return
	}
	in, out, greeting := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout), ""
	for asked := (request{}); asked.Method != "shutdown"; {
		if asked = (request{}); in.Decode(&asked) != nil {
			return
		}
		action, attrs := asked.Params.Action, asked.Params.Attrs
		outcome, is := object{}, "result"
		switch {
		case asked.Method == "describe":
			outcome["schema"] = json.RawMessage(schema)
		case asked.Method == "configure":
			greeting = asked.Params.Config.Greeting
		case asked.Method != "execute" && asked.Method != "shutdown":
			outcome, is = refusal("unknown_method", "unknown method: "+asked.Method), "error"
		case action == "echo":
			text := strings.TrimSpace(greeting + strings.Repeat(" "+attrs.Text, attrs.Times))
			outcome["outputs"] = object{"text": text, "times": attrs.Times}
		case action != "noop" && asked.Method == "execute":
			outcome, is = refusal("unknown_action", "unknown action: "+action), "error"
		}
		_ = out.Encode(object{"id": asked.ID, is: outcome})
	}
}
