package main

import (
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/router/auth"
)

type tokenCmd struct {
	Keys     string        `help:"File with the key to sign with: a secret, or an Ed25519 private key." env:"RILLKEEP_KEYS" required:"" placeholder:"FILE"`
	Ops      []auth.Op     `help:"Operations to allow: read, write, cancel, admin; by default ${default}." enum:"read,write,cancel,admin" default:"read" placeholder:"OP"`
	Streams  []string      `help:"Streams to allow: ids, with * for any text; by default all." default:"*" placeholder:"PATTERN"`
	TTL      time.Duration `help:"How long the token is good, by default ${default}." default:"1h" placeholder:"DURATION"`
	Audience string        `help:"Audience that it is made for, by default ${default}." env:"RILLKEEP_AUDIENCE" default:"rillkeep" placeholder:"NAME"`
	Subject  string        `help:"Whom it is for; shows in logs." placeholder:"NAME"`
}

// Help is printed below the flags.
func (tokenCmd) Help() string {
	return `Examples:
  openssl rand -base64 48 > keys.txt
  rillkeep token --keys keys.txt --ops read,cancel --streams 'chat-17-*' --ttl 10m`
}

// Run prints the token.
func (t tokenCmd) Run(con *console) error {
	keys, err := auth.LoadKeys(t.Keys)
	if err != nil {
		return err
	}
	token, err := keys.Mint(auth.Claims{
		Ops: t.Ops, Streams: t.Streams, Subject: t.Subject, Audience: t.Audience, Expires: time.Now().Add(t.TTL),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(con.out, token)
	return err
}
