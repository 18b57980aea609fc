package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestServeExampleShowsEveryField reads docs/serve-example.yml, and wants it to have each field of the configuration,
// or to show it in a comment.
func TestServeExampleShowsEveryField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/serve-example.yml")
	if err != nil {
		t.Fatal(err)
	}
	var cfg serveConfig
	if err := decodeConfig(text, &cfg); err != nil {
		t.Fatal(err)
	}
	var has map[string]any
	if err := yaml.Unmarshal(text, &has); err != nil {
		t.Fatal(err)
	}
	auth, _ := has["auth"].(map[string]any)
	for name, section := range map[string]struct {
		has    any
		fields any
	}{
		"": {has, cfg}, "auth": {auth, cfg.Auth}, "auth: oidc": {auth["oidc"], *cfg.Auth.OIDC},
		"auth: proxy": {auth["proxy"], *cfg.Auth.Proxy}, "tls": {has["tls"], cfg.TLS}, "limits": {has["limits"], cfg.Limits},
	} {
		fields, _ := section.has.(map[string]any)
		of := reflect.TypeOf(section.fields)
		for i := range of.NumField() {
			field := of.Field(i).Tag.Get("yaml")
			if field == "" || field == "-" || strings.Contains(string(text), "# "+field+":") {
				continue
			}
			if _, ok := fields[field]; !ok {
				t.Errorf("section %q has no %s", name, field)
			}
		}
	}
}
