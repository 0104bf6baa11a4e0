// A micro service of one endpoint, which toolbus calls as a tool: go run ./service URL
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

const schema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`

func main() {
	client, err := nats.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	service, err := micro.AddService(client, micro.Config{Name: "shouts", Version: "1.0.0"})
	if err != nil {
		log.Fatal(err)
	}
	upper := micro.HandlerFunc(func(request micro.Request) {
		request.Respond([]byte(strings.ToUpper(string(request.Data()))))
	})
	about := micro.WithEndpointMetadata(map[string]string{"schema": schema})
	if err := service.AddEndpoint("upper", upper, about); err != nil {
		log.Fatal(err)
	}
	client.Flush()
	fmt.Println("ready")
	select {}
}
