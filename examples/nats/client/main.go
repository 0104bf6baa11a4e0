// Calls a tool that a toolbus serves, and shows what a failure is: go run ./client URL NAME
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	client, err := nats.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ask := func(tool, arguments string) *nats.Msg {
		answer, err := client.Request(os.Args[2]+"."+tool, []byte(arguments), 5*time.Second)
		if err != nil {
			log.Fatal(err)
		}
		return answer
	}
	fmt.Println(string(ask("add", `{"a":19,"b":23}`).Data))
	failed := ask("fail", `{"message":"out of luck"}`).Header
	fmt.Println(failed.Get("Nats-Service-Error-Code"), failed.Get("Nats-Service-Error"))
}
