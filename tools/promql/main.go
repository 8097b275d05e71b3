// What Prometheus itself makes of PromQL and of a scrape.
//
// Without an argument it reads PromQL expressions, one a line, and writes for each a line of JSON: the metrics that it selects with
// the labels that it asks of each, and the labels that it groups by or joins on. A line that is no PromQL
// ends the program with its number.
//
// With the argument openmetrics it reads a scrape in that format, and writes how many series it holds.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
)

// Selector is one metric of an expression.
type Selector struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

// Grouping is what an operator keeps of the labels of the metrics below it.
type Grouping struct {
	Labels  []string `json:"labels"`
	Metrics []string `json:"metrics"`
}

// Said is what one expression speaks of.
type Said struct {
	Selectors []Selector `json:"selectors"`
	Groupings []Grouping `json:"groupings"`
}

func selector(node *parser.VectorSelector) Selector {
	one := Selector{Metric: node.Name, Labels: []string{}}
	for _, matcher := range node.LabelMatchers {
		if matcher.Name != labels.MetricName {
			one.Labels = append(one.Labels, matcher.Name)
		}
	}
	return one
}

func metrics(node parser.Node) []string {
	names := map[string]bool{}
	parser.Inspect(node, func(node parser.Node, _ []parser.Node) error {
		if one, ok := node.(*parser.VectorSelector); ok {
			names[one.Name] = true
		}
		return nil
	})
	sorted := []string{}
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	return sorted
}

func said(expression string) (Said, error) {
	result := Said{Selectors: []Selector{}, Groupings: []Grouping{}}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return result, err
	}
	group := func(labels []string, node parser.Node) {
		if len(labels) > 0 {
			result.Groupings = append(result.Groupings, Grouping{labels, metrics(node)})
		}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			result.Selectors = append(result.Selectors, selector(node))
		case *parser.AggregateExpr:
			group(node.Grouping, node)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				group(node.VectorMatching.MatchingLabels, node)
				group(node.VectorMatching.Include, node)
			}
		}
		return nil
	})
	return result, nil
}

// series counts the series of a scrape, down to the mark at its end.
func series(scrape []byte) (int, error) {
	reader := textparse.NewOpenMetricsParser(scrape, labels.NewSymbolTable())
	for count := 0; ; {
		entry, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return count, nil
		case err != nil:
			return count, err
		case entry == textparse.EntrySeries:
			count++
		}
	}
}

func openmetrics() error {
	scrape, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	count, err := series(scrape)
	if err != nil {
		return fmt.Errorf("after %d series: %w", count, err)
	}
	_, err = fmt.Println(count)
	return err
}

func expressions() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for number := 1; lines.Scan(); number++ {
		result, err := said(lines.Text())
		if err == nil {
			err = out.Encode(result)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w: %s", number, err, lines.Text())
		}
	}
	return lines.Err()
}

func main() {
	read := expressions
	if len(os.Args) == 2 && os.Args[1] == "openmetrics" {
		read = openmetrics
	}
	if err := read(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
