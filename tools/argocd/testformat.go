package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	enginehealth "github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Argo CD's test format, as its util/lua/*_test.go reads it. Two things are stricter here: every action that is
// offered must be expected *and* the other way round, and a health script runs without libraries.
type healthTests struct {
	Tests []struct {
		InputPath    string                    `json:"inputPath"`
		HealthStatus enginehealth.HealthStatus `json:"healthStatus"`
	} `json:"tests"`
}

type actionTests struct {
	DiscoveryTests []struct {
		InputPath string                    `json:"inputPath"`
		Result    []v1alpha1.ResourceAction `json:"result"`
	} `json:"discoveryTests"`
	ActionTests []struct {
		Action             string `json:"action"`
		InputPath          string `json:"inputPath"`
		ExpectedOutputPath string `json:"expectedOutputPath"`
	} `json:"actionTests"`
}

// What varies from one moment to the next is compared as this.
const retry = "run-operator.dev/retry"

type tally struct{ passed, failed int }

func (t *tally) check(name string, err error) {
	if err != nil {
		t.failed++
		fmt.Printf("FAIL %s: %v\n", name, err)
		return
	}
	t.passed++
	fmt.Printf("ok   %s\n", name)
}

func test(ctx context.Context, args []string) error {
	vm, rest, err := machine(ctx, "test", args)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return fmt.Errorf("test: which directory?")
	}
	count := &tally{}
	err = filepath.WalkDir(rest[0], func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch filepath.Base(path) {
		case "health_test.yaml":
			return testHealth(vm, rest[0], path, count)
		case "action_test.yaml":
			return testActions(vm, rest[0], path, count)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d passed, %d failed\n", count.passed, count.failed)
	if count.failed > 0 || count.passed == 0 {
		return fmt.Errorf("%d of %d tests failed", count.failed, count.passed+count.failed)
	}
	return nil
}

func testHealth(vm lua.VM, root, path string, count *tally) error {
	var tests healthTests
	if err := read(path, &tests); err != nil {
		return err
	}
	for _, one := range tests.Tests {
		name := label(root, path, "health "+one.InputPath)
		input, err := input(path, one.InputPath)
		if err != nil {
			return err
		}
		found, err := healthOf(vm, input)
		if err == nil && *found != one.HealthStatus {
			err = fmt.Errorf("want %+v, got %+v", one.HealthStatus, *found)
		}
		count.check(name, err)
	}
	return nil
}

func testActions(vm lua.VM, root, path string, count *tally) error {
	var tests actionTests
	if err := read(path, &tests); err != nil {
		return err
	}
	for _, one := range tests.DiscoveryTests {
		input, err := input(path, one.InputPath)
		if err != nil {
			return err
		}
		count.check(label(root, path, "discovery "+one.InputPath), discovers(vm, input, one.Result))
	}
	for _, one := range tests.ActionTests {
		name := label(root, path, one.Action+" "+one.InputPath)
		object, err := input(path, one.InputPath)
		if err != nil {
			return err
		}
		wanted, err := input(path, one.ExpectedOutputPath)
		if err != nil {
			return err
		}
		found, err := outcome(vm, object, one.Action)
		if err == nil {
			err = same(found, wanted, object)
		}
		count.check(name, err)
	}
	return nil
}

func discovers(vm lua.VM, object *unstructured.Unstructured, wanted []v1alpha1.ResourceAction) error {
	scripts, err := vm.GetResourceActionDiscovery(object)
	if err != nil {
		return err
	}
	found, err := vm.ExecuteResourceActionDiscovery(object, scripts)
	if err != nil {
		return err
	}
	byName := func(a, b v1alpha1.ResourceAction) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(found, byName)
	slices.SortFunc(wanted, byName)
	if len(found) != len(wanted) || (len(found) > 0 && !reflect.DeepEqual(found, wanted)) {
		return fmt.Errorf("want %+v, got %+v", wanted, found)
	}
	return nil
}

// same compares what an action made with what it should make; a retry must be new, whatever it is.
func same(found, wanted, before *unstructured.Unstructured) error {
	value := found.GetAnnotations()[retry]
	if wanted.GetAnnotations()[retry] != "" {
		if value == "" || value == before.GetAnnotations()[retry] {
			return fmt.Errorf("no new value of %s", retry)
		}
		annotations := found.GetAnnotations()
		annotations[retry] = wanted.GetAnnotations()[retry]
		found.SetAnnotations(annotations)
	}
	left, err := found.MarshalJSON()
	if err != nil {
		return err
	}
	right, err := wanted.MarshalJSON()
	if err != nil {
		return err
	}
	if string(left) != string(right) {
		return fmt.Errorf("want %s, got %s", right, left)
	}
	return nil
}

func label(root, path, what string) string {
	directory, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return what
	}
	return directory + " " + what
}

func input(test, path string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, read(filepath.Join(filepath.Dir(test), path), &object.Object)
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
