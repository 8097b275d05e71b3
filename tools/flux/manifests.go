package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kinds are the types of Flux that our examples use.
var kinds = map[string]func() any{
	kustomizev1.GroupVersion.String() + " Kustomization": func() any { return &kustomizev1.Kustomization{} },
	sourcev1.GroupVersion.String() + " GitRepository":    func() any { return &sourcev1.GitRepository{} },
	sourcev1.GroupVersion.String() + " OCIRepository":    func() any { return &sourcev1.OCIRepository{} },
	sourcev1.GroupVersion.String() + " HelmRepository":   func() any { return &sourcev1.HelmRepository{} },
	helmv2.GroupVersion.String() + " HelmRelease":        func() any { return &helmv2.HelmRelease{} },
}

// documents reads a file of Flux's objects strictly and hands each to `take`.
func documents(path string, take func(any) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if meta.Kind == "" {
			continue
		}
		make := kinds[meta.APIVersion+" "+meta.Kind]
		if make == nil {
			return fmt.Errorf("%s: %s %s is no kind of Flux", path, meta.APIVersion, meta.Kind)
		}
		value := make()
		if err := yaml.UnmarshalStrict(document, value); err != nil {
			return fmt.Errorf("%s: %s: %w", path, meta.Kind, err)
		}
		if err := take(value); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// keeps refuses a HelmRelease that Flux may uninstall because an action failed.
func keeps(value any) error {
	release, ok := value.(*helmv2.HelmRelease)
	if !ok {
		return nil
	}
	install, upgrade := release.GetInstall(), release.GetUpgrade()
	remediation := install.GetRemediation()
	if install.GetRetry(false) == nil && (remediation.GetRetries() != 0 || remediation.MustRemediateLastFailure()) {
		return fmt.Errorf("%s: a failed install is uninstalled before it is tried again", release.Name)
	}
	remedy := upgrade.GetRemediation()
	if upgrade.GetRetry(false) == nil && remedy.GetStrategy() == helmv2.UninstallRemediationStrategy {
		return fmt.Errorf("%s: a failed upgrade is remedied by an uninstall", release.Name)
	}
	return nil
}

func manifests(paths []string) error {
	count := 0
	for _, path := range paths {
		if err := documents(path, func(value any) error { count++; return keeps(value) }); err != nil {
			return err
		}
	}
	return print(count)
}
