package main

import (
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// No engine is needed to read the Dockerfile as one would.
func stages(t *testing.T) ([]instructions.Stage, []instructions.ArgCommand) {
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
	stages, arguments, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn}))
	if err != nil {
		t.Fatal(err)
	}
	return stages, arguments
}

// environment is what the arguments of a build come to, for the expansion of FROM.
type environment map[string]string

func (e environment) Get(key string) (string, bool) { value, ok := e[key]; return value, ok }

func (e environment) Keys() []string {
	var keys []string
	for key := range e {
		keys = append(keys, key)
	}
	return keys
}

// What builds is given by digest: without the argument there is no name to build on, and each such stage refuses a
// name without a digest before it does anything.
// Proves: I-release
func TestTheBaseImagesAreGivenByDigestOrNothingIsBuilt(t *testing.T) {
	all, arguments := stages(t)
	tags, err := exec.Command("../../.ci/base-images", "--tags").Output()
	if err != nil {
		t.Fatal(err)
	}
	given := environment{}
	for _, line := range strings.Fields(string(tags)) {
		name, tag, _ := strings.Cut(line, "=")
		given[name] = tag + "@sha256:" + strings.Repeat("0", 64)
	}
	for _, command := range arguments {
		for _, argument := range command.Args {
			if argument.Value != nil {
				t.Errorf("%s has a default: %s", argument.Key, *argument.Value)
			}
			if _, ok := given[argument.Key]; !ok {
				t.Errorf(".ci/base-images does not give %s", argument.Key)
			}
		}
	}
	lex := shell.NewLex('\\')
	for _, stage := range all[:len(all)-1] {
		if result, err := lex.ProcessWordWithMatches(stage.BaseName, environment{}); err == nil {
			t.Errorf("%s is built on %q where nothing is given", stage.Name, result.Result)
		}
		result, err := lex.ProcessWordWithMatches(stage.BaseName, given)
		if err != nil || !strings.Contains(result.Result, "@sha256:") {
			t.Errorf("%s is built on %q: %v", stage.Name, result.Result, err)
		}
		argument, isArg := stage.Commands[0].(*instructions.ArgCommand)
		run, isRun := stage.Commands[1].(*instructions.RunCommand)
		if !isArg || !isRun {
			t.Errorf("%s does not look at its base image first", stage.Name)
			continue
		}
		check := strings.Join(run.CmdLine, " ")
		for name, good := range map[string]bool{result.Result: true, "rust:1": false, "": false} {
			shell := exec.Command("sh", "-c", check)
			shell.Env = []string{argument.Args[0].Key + "=" + name}
			if ended := shell.Run(); (ended == nil) != good {
				t.Errorf("%s takes %q: %v", stage.Name, name, ended == nil)
			}
		}
	}
}

func TestTheDockerfileSaysWhatTheImageIs(t *testing.T) {
	all, _ := stages(t)
	stage := all[len(all)-1]
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
			if c.PrependShell || strings.Join(c.CmdLine, " ") != operator.entrypoint() {
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
	wanted := release{of: operator, version: "$VERSION", revision: "$REVISION"}.annotations()
	wanted["org.opencontainers.image.created"] = "$CREATED"
	if !maps.Equal(labels, wanted) {
		t.Errorf("labels are %v instead of %v", labels, wanted)
	}
}
