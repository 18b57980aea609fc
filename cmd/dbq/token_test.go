//go:build unix

package main

import (
	"strings"
	"testing"
)

func TestTokenVerbs(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	if out := u.run("token", "list").ok(); out != "" {
		t.Errorf("there are no tokens, and it says %q", out)
	}
	secret := strings.TrimSpace(u.run("token", "create", "deploy", "--role", "trigger", "-q", "mail", "--ttl", "1d").ok())
	id := strings.Split(secret, "_")[1]
	u.run("token", "list").has(id, "deploy", "trigger", "mail", "hidden", "never")
	if o := u.run("token", "list", "--json"); strings.Contains(o.ok(), secret) || o.one()["id"] != id {
		t.Errorf("got %s", o.out)
	}
	u.run("token", "revoke", secret).fails(exitNotFound, "no token with this id")
	u.run("token", "revoke", id).has("revoked " + id)
	u.run("token", "revoke", id).fails(exitNotFound, "no token with this id")
	o := u.run("token", "create", "ann", "--role", "admin", "--ttl", "forever", "--payloads", "--json")
	if got := o.one(); got["payloads"] != true || got["expires"] != nil || got["role"] != "admin" ||
		!strings.HasPrefix(got["secret"].(string), "dbq_") {
		t.Errorf("got %v", got)
	}
	u.run("token", "create", "on-call", "--role", "responder").ok()
	u.run("token", "list").has("on-call", "responder")
	u.run("token", "create", "x").fails(exitUsage, "--role is missing")
	u.run("token", "create", "x", "--role", "boss").fails(exitUsage, "the role must be")
	u.run("token", "create", "x", "--role", "viewer", "--ttl", "0").fails(exitUsage, "must be")
	u.run("token", "create").fails(exitUsage, "token's name")
}
