// attention.go [URL] - one attention with nothing but Go's standard library.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
)

type request struct {
	Model   string      `json:"model"`
	Query   [][]float32 `json:"query"`
	Outputs []string    `json:"outputs"`
}

type answer struct {
	Context [][]float32   `json:"context"`
	Weights [][][]float32 `json:"weights"`
	Error   string        `json:"error"`
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
	body, err := json.Marshal(request{
		Model:   "demo",
		Query:   [][]float32{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 0, 1}},
		Outputs: []string{"context", "weights"},
	})
	if err != nil {
		log.Fatal(err)
	}
	response, err := http.Post(url+"/v1/attention", "application/json", bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	var got answer
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		log.Fatal(got.Error)
	}
	show("context", got.Context)
	show("weights", got.Weights[0])
}
