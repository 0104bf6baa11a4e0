// A foreign peer that speaks HTTP/2 in clear: `h2c call URL` streams through our server, `h2c
// serve` is a server for our client over HTTP/1.1 and prints its port.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 3 && os.Args[1] == "call":
		call(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	default:
		log.Fatal("usage: h2c call URL | h2c serve")
	}
}

// call echoes a stream element by element, both bodies open at once, then asks again on the
// same connection.
func call(url string) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}

	body, say := io.Pipe()
	request, _ := http.NewRequest("POST", url, body)
	request.Header.Set("Content-Type", "application/x-mediocre-rpc")
	go fmt.Fprint(say, `{"method":"echo","args":"h","streamStart":true}`)
	response, err := client.Do(request)
	check(err)
	if response.ProtoMajor != 2 {
		log.Fatalf("not HTTP/2 but %s", response.Proto)
	}
	lines := bufio.NewScanner(response.Body)
	want(lines, `{"res":"h","streamStart":true}`)
	for n := range 100 {
		element := fmt.Sprintf(`{"el":%d}`, n)
		fmt.Fprint(say, element)
		want(lines, element)
	}
	fmt.Fprint(say, `{"streamEnd":true}`)
	check(say.Close())
	want(lines, `{"streamEnd":true}`)
	if lines.Scan() {
		log.Fatalf("more: %s", lines.Text())
	}
	check(lines.Err())

	// An answer before the request has ended, which is then reset without an error.
	body, say = io.Pipe()
	request, _ = http.NewRequest("POST", url, body)
	go fmt.Fprint(say, `{"method":"early","streamStart":true}`)
	response, err = client.Do(request)
	check(err)
	early, err := io.ReadAll(response.Body)
	check(err)
	if string(early) != "{\"res\":{\"early\":true}}\n" {
		log.Fatalf("not an early answer: %s", early)
	}

	// What fails late is cut.
	request, _ = http.NewRequest("POST", url, nil)
	request.Body = io.NopCloser(jsonBody(`{"method":"count","args":{"n":3,"fail_at":1}}`))
	response, err = client.Do(request)
	check(err)
	if all, err := io.ReadAll(response.Body); err == nil {
		log.Fatalf("a late failure ended well: %s", all)
	}
}

func jsonBody(text string) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		fmt.Fprint(writer, text)
		writer.Close()
	}()
	return reader
}

// serve echoes single calls, and streams as they come.
func serve() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		decoder := json.NewDecoder(r.Body)
		var message struct {
			Args        any
			El          any
			StreamStart bool
			StreamEnd   bool
		}
		if decoder.Decode(&message) != nil {
			http.Error(w, "that is no call", http.StatusBadRequest)
			return
		}
		encoder := json.NewEncoder(w)
		encoder.Encode(map[string]any{"res": message.Args, "streamStart": message.StreamStart})
		if !message.StreamStart {
			return
		}
		for !message.StreamEnd {
			control.Flush()
			message.El = nil
			if decoder.Decode(&message) != nil {
				panic(http.ErrAbortHandler)
			}
			if !message.StreamEnd {
				encoder.Encode(map[string]any{"el": message.El})
			}
		}
		encoder.Encode(map[string]any{"streamEnd": true})
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	check(http.Serve(listener, handler))
}

func want(lines *bufio.Scanner, text string) {
	if !lines.Scan() {
		log.Fatalf("ended before %s: %v", text, lines.Err())
	}
	if lines.Text() != text {
		log.Fatalf("got %s, want %s", lines.Text(), text)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
