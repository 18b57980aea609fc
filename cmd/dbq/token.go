package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/spf13/cobra"
)

func newToken(a *app) *cobra.Command {
	return parent("dbq token", newTokenCreate(a), newTokenList(a), newTokenRevoke(a))
}

// createdToken is the output of dbq token create --json.
type createdToken struct {
	Secret string `json:"secret"`
	auth.Token
}

// defaultTTL is how long a token is valid.
const defaultTTL = 90 * 24 * time.Hour

func newTokenCreate(a *app) *cobra.Command {
	var n auth.NewToken
	cmd := a.command("dbq token create", oneArg("token's name"), a.withClient(
		func(ctx context.Context, c *dbq.Client, args []string) error {
			n.Name = args[0]
			if n.Role == "" {
				return usagef("--role is missing: viewer, trigger, responder, operator or admin")
			}
			if n.TTL == dbq.Forever {
				n.TTL = 0
			}
			secret, token, err := auth.NewTokens(c).Create(ctx, n)
			if err != nil {
				return err
			}
			if !a.json {
				a.note("token %s (%s) is valid %s; it cannot be shown again", token.ID, token.Role, validity(token))
			}
			return a.result(createdToken{secret, token}, "%s", secret)
		}))
	l := cmd.Flags()
	l.SortFlags = false
	l.Func("role", "`ROLE`: viewer, trigger, responder, operator or admin", func(text string) error {
		return n.Role.UnmarshalText([]byte(text))
	})
	var roles []string
	for _, r := range auth.Roles() {
		roles = append(roles, string(r))
	}
	completeFlag(cmd, "role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	l.StringArrayVarP(&n.Queues, "queue", "q", nil, "only this `QUEUE`; repeatable")
	completeFlag(cmd, "queue", a.completeBy(queueNames))
	l.StringArrayVar(&n.Databases, "database", nil, "only this `DATABASE` of the server; repeatable")
	l.BoolVar(&n.Payloads, "payloads", false, "show payloads, headers, results and errors")
	ttl := durationVar(l, &n.TTL, "ttl", defaultTTL, "valid for this `TIME`, such as 30d, or forever")
	ttl.within(time.Second, dbq.MaxDelay)
	ttl.orForever = true
	return a.addNote(cmd)
}

// validity is until when a token is valid, as text.
func validity(t auth.Token) string {
	switch {
	case t.Expires.IsZero():
		return "until it is revoked"
	case t.Expired:
		return "no more"
	}
	return "until " + t.Expires.Format(time.RFC3339)
}

func newTokenList(a *app) *cobra.Command {
	return a.command("dbq token list", noArgs(""), a.withClient(
		func(ctx context.Context, c *dbq.Client, _ []string) error {
			tokens, err := auth.NewTokens(c).List(ctx)
			if err != nil {
				return err
			}
			return tokenListing.print(ctx, a, c, tokens)
		}))
}

var tokenListing = listing[auth.Token]{
	none:      "no tokens",
	columns:   []string{"TOKEN", "NAME", "ROLE", "QUEUES", "DATABASES", "PAYLOADS", "VALID", "USED"},
	rightFrom: 8,
	row: func(t auth.Token, now time.Time) []string {
		all := func(names []string) string {
			if len(names) == 0 {
				return "all"
			}
			return strings.Join(names, ",")
		}
		payloads, used := "hidden", "never"
		if t.Payloads {
			payloads = "shown"
		}
		if !t.Used.IsZero() {
			used = span(now.Sub(t.Used)) + " ago"
		}
		return []string{t.ID, t.Name, string(t.Role), all(t.Queues), all(t.Databases), payloads, validity(t), used}
	},
	json: func(t auth.Token) any { return t },
}

func newTokenRevoke(a *app) *cobra.Command {
	cmd := a.command("dbq token revoke", oneArg("token's id (see `dbq token list`)"), a.withClient(
		func(ctx context.Context, c *dbq.Client, args []string) error {
			err := auth.NewTokens(c).Revoke(ctx, args[0])
			if errors.Is(err, dbq.ErrNotFound) {
				// The argument may be a whole token, so it is not repeated.
				return &exitError{exitNotFound, fmt.Errorf("there is no token with this id (see `dbq token list`)")}
			}
			if err != nil {
				return err
			}
			return a.result(nil, "revoked %s", args[0])
		}))
	cmd.ValidArgsFunction = firstArg(a.completeBy(func(ctx context.Context, c *dbq.Client) (ids []string, err error) {
		tokens, err := auth.NewTokens(c).List(ctx)
		for _, t := range tokens {
			ids = append(ids, t.ID)
		}
		return ids, err
	}))
	return a.addNote(cmd)
}
