package main

import (
	"context"
	"fmt"

	fluxstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// computed prints each object's kstatus. The original library and Flux's fork, which is the one that Flux asks,
// must agree.
func computed() error {
	all, err := objects()
	if err != nil {
		return err
	}
	found := []*status.Result{}
	for _, one := range all {
		result, err := status.Compute(one)
		if err != nil {
			return fmt.Errorf("%s: %w", one.GetName(), err)
		}
		forked, err := fluxstatus.Compute(one)
		if err != nil {
			return fmt.Errorf("%s: %w", one.GetName(), err)
		}
		if string(result.Status) != string(forked.Status) {
			return fmt.Errorf("%s: kstatus says %s and Flux's fork %s", one.GetName(), result.Status, forked.Status)
		}
		found = append(found, result)
	}
	return print(found)
}

// health prints each object's status by the healthCheckExprs of a Kustomization's file.
func health(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("health: which file?")
	}
	evaluators, err := expressions(args[0])
	if err != nil {
		return err
	}
	all, err := objects()
	if err != nil {
		return err
	}
	found := []string{}
	for _, one := range all {
		result, err := evaluate(ctx, evaluators, one)
		if err != nil {
			return fmt.Errorf("%s: %w", one.GetName(), err)
		}
		found = append(found, result)
	}
	return print(found)
}

func evaluate(ctx context.Context, by map[string]*cel.StatusEvaluator, one *unstructured.Unstructured) (string, error) {
	evaluator := by[one.GetAPIVersion()+" "+one.GetKind()]
	if evaluator == nil {
		return "", fmt.Errorf("no expressions for %s", one.GetKind())
	}
	result, err := evaluator.Evaluate(ctx, one)
	if err != nil {
		return "", err
	}
	return string(result.Status), nil
}

// expressions reads the healthCheckExprs of every Kustomization in a file, by API version and kind.
func expressions(path string) (map[string]*cel.StatusEvaluator, error) {
	found := map[string]*cel.StatusEvaluator{}
	err := documents(path, func(value any) error {
		kustomization, ok := value.(*kustomizev1.Kustomization)
		if !ok {
			return nil
		}
		for _, check := range kustomization.Spec.HealthCheckExprs {
			evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
			if err != nil {
				return fmt.Errorf("%s: %w", check.Kind, err)
			}
			found[check.APIVersion+" "+check.Kind] = evaluator
		}
		return nil
	})
	return found, err
}
