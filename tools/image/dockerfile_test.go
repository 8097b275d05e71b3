package main

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// No engine is needed to read the Dockerfile as one would.
func lastStage(t *testing.T) instructions.Stage {
	t.Helper()
	in, err := os.Open("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	parsed, err := parser.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	warn := func(rule, _, _, detail string, _ []parser.Range) { t.Errorf("%s: %s", rule, detail) }
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn}))
	if err != nil {
		t.Fatal(err)
	}
	return stages[len(stages)-1]
}

func TestTheDockerfileSaysWhatTheImageIs(t *testing.T) {
	stage := lastStage(t)
	if stage.BaseName != "scratch" {
		t.Errorf("is built on %s", stage.BaseName)
	}
	labels, said := map[string]string{}, map[string]bool{}
	for _, command := range stage.Commands {
		said[command.Name()] = true
		switch c := command.(type) {
		case *instructions.UserCommand:
			if c.User != user {
				t.Errorf("runs as %s", c.User)
			}
		case *instructions.EntrypointCommand:
			if c.PrependShell || strings.Join(c.CmdLine, " ") != entrypoint {
				t.Errorf("starts %v", c.CmdLine)
			}
		case *instructions.LabelCommand:
			for _, label := range c.Labels {
				labels[label.Key] = strings.Trim(label.Value, `"`)
			}
		case *instructions.ArgCommand, *instructions.CopyCommand, *instructions.WorkdirCommand:
		default:
			t.Errorf("%s is not what an image of one program needs", command.Name())
		}
	}
	if !said["USER"] || !said["ENTRYPOINT"] {
		t.Errorf("says only %v", said)
	}
	wanted := release{version: "$VERSION", revision: "$REVISION"}.annotations()
	wanted["org.opencontainers.image.created"] = "$CREATED"
	if !maps.Equal(labels, wanted) {
		t.Errorf("labels are %v instead of %v", labels, wanted)
	}
}
