// SPDX-License-Identifier: Apache-2.0
// attention.go [URL [TEXT]] - one attention with nothing but Go's standard library. With a text, what each of its tokens
// looks at most, in one head of stories260K. KEY in the environment is sent as the key.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

const tries = 5

type attention struct {
	Context [][]float32   `json:"context"`
	Weights [][][]float32 `json:"weights"`
}

type trace struct {
	Tokens []struct {
		Text string `json:"text"`
	} `json:"tokens"`
	Layers []struct {
		Weights [][][]float32 `json:"weights"`
	} `json:"layers"`
}

var client = http.Client{Timeout: 10 * time.Second}

// The answer to body is read into answer. A daemon that is busy (429) or not ready (503) says in how many seconds to
// ask again.
func ask(url string, body map[string]any, answer any) {
	text, err := json.Marshal(body)
	if err != nil {
		log.Fatal(err)
	}
	for left := tries - 1; ; left-- {
		request, err := http.NewRequest("POST", url, bytes.NewReader(text))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if key := os.Getenv("KEY"); key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		response, err := client.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		came, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		if response.StatusCode == http.StatusOK && json.Unmarshal(came, answer) == nil {
			return
		}
		if left == 0 || response.StatusCode != http.StatusTooManyRequests &&
			response.StatusCode != http.StatusServiceUnavailable {
			log.Fatalf("%d: %.500s", response.StatusCode, came) // of a proxy it is no JSON
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			seconds = 1
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func show(name string, rows [][]float32) {
	fmt.Println(name)
	for _, row := range rows {
		for i, number := range row {
			if i > 0 {
				fmt.Print(" ")
			}
			fmt.Printf("%.4f", number)
		}
		fmt.Println()
	}
}

func main() {
	log.SetFlags(0)
	url := "http://127.0.0.1:8080"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if len(os.Args) <= 2 {
		var got attention
		ask(url+"/v1/attention", map[string]any{
			"model":   "demo",
			"query":   [][]float32{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 0, 1}},
			"outputs": []string{"context", "weights"},
		}, &got)
		show("context", got.Context)
		show("weights", got.Weights[0])
		return
	}
	var got trace
	ask(url+"/v1/trace", map[string]any{
		"model":      "stories260K",
		"text":       os.Args[2],
		"layers":     []int{1},
		"weight_map": map[string]any{"heads": []int{4}},
	}, &got)
	for i, row := range got.Layers[0].Weights[0] {
		most := 0
		for k, weight := range row {
			if weight > row[most] {
				most = k
			}
		}
		fmt.Printf("%s %s %.4f\n", got.Tokens[i].Text, got.Tokens[most].Text, row[most])
	}
}
