package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/v3/common"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

// overrides reads an argocd-cm as Argo CD does, and as `argocd admin settings --argocd-cm-path` does: with its
// own settings manager. The clientset only hands it the file. The libraries of Lua stay off, as they are for
// scripts that don't ask for them.
func overrides(ctx context.Context, path string) (lua.ResourceHealthOverrides, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if config.Name != common.ArgoCDConfigMapName {
		return nil, fmt.Errorf("%s is the ConfigMap %q", path, config.Name)
	}
	config.Namespace = "argocd"
	config.Labels = map[string]string{"app.kubernetes.io/part-of": "argocd"}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: common.ArgoCDSecretName, Namespace: "argocd", Labels: config.Labels},
		Data:       map[string][]byte{"admin.password": []byte("test"), "server.secretkey": []byte("test")},
	}
	manager := settings.NewSettingsManager(ctx, fake.NewClientset(config, secret), "argocd")
	read, err := manager.GetResourceOverrides()
	if err != nil {
		return nil, err
	}
	return read, nil
}

// machine is Argo CD's Lua with the scripts of the ConfigMap that the arguments name, and the arguments left.
func machine(ctx context.Context, name string, args []string) (lua.VM, []string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	cm := flags.String("cm", "", "argocd-cm")
	if err := flags.Parse(args); err != nil {
		return lua.VM{}, nil, err
	}
	read, err := overrides(ctx, *cm)
	return lua.VM{ResourceOverrides: read}, flags.Args(), err
}
