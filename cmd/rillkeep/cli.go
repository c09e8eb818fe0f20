package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/alecthomas/kong"

	"rillkeep.dev/rillkeep/router/client"
)

const description = `Rillkeep keeps language-model responses alive: streams that any reader can join
anywhere, at any time, and that survive their connections.

  rillkeep dev                                          run three nodes behind 127.0.0.1:8080
  rillkeep serve                                        run one node there
  curl -N … | rillkeep push --format openai m1          feed a model's response into stream m1
  rillkeep tail m1                                      follow it from any terminal

Exit codes: 0 success (tail and push: the stream is complete), 1 failure, 2 usage,
3 cancelled, 4 error, 5 interrupted, 6 not found, 7 not allowed, 130 stopped by a
signal. A push that is stopped once its stream is open seals it, and exits with 5; a
node that is stopped drains, and exits with 0.`

// commands is the command line.
type commands struct {
	Serve   serveCmd   `cmd:"" help:"Run one node."`
	Dev     devCmd     `cmd:"" help:"Run a cluster of nodes on this machine, to try things with."`
	Push    pushCmd    `cmd:"" help:"Feed standard input into a new stream, and seal it as the input ends."`
	Tail    tailCmd    `cmd:"" help:"Follow a stream to its end, through broken connections."`
	Show    showCmd    `cmd:"" help:"Print a stream's text as it is now."`
	Ls      lsCmd      `cmd:"" help:"List streams."`
	Flush   flushCmd   `cmd:"" help:"Wait until everything a stream was given is durable."`
	Cancel  cancelCmd  `cmd:"" help:"Ask a stream to stop."`
	Cluster clusterCmd `cmd:"" help:"Print a cluster's members, and what each has."`
	Token   tokenCmd   `cmd:"" help:"Mint a token."`
	Migrate migrateCmd `cmd:"" help:"Bring a PostgreSQL database up to this release."`
	DDL     ddlCmd     `cmd:"" name:"ddl" help:"Print the SQL of a chunk table beside an application's messages, and of the index for its nodes' rows."`

	Help    helpCmd    `cmd:"" help:"Explain a command, or all of them in short."`
	Version versionCmd `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

// console is what a command talks to.
type console struct {
	in       io.Reader
	out, err io.Writer

	saying sync.Mutex // held by who writes to err
}

// say tells the user something beside the output. It is safe for concurrent use.
func (c *console) say(format string, args ...any) {
	c.saying.Lock()
	defer c.saying.Unlock()
	fmt.Fprintf(c.err, "rillkeep: "+format+"\n", args...)
}

// remote is where the commands for streams find the server.
type remote struct {
	Server []string `help:"Base URL of a node, by default ${default}; with those of more nodes of its cluster, separated by commas, whoever is there is asked." env:"RILLKEEP_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL"`
	Token  string   `help:"Token to send; better given by the environment." env:"RILLKEEP_TOKEN" placeholder:"TOKEN"`
	JSON   bool     `help:"Print JSON, one value a line." name:"json"`
}

func (r remote) client(lost func(id string, why error)) (*client.Client, error) {
	cfg := client.Config{Token: r.Token, Lost: lost}
	if len(r.Server) > 0 {
		cfg.Server, cfg.Others = r.Server[0], r.Server[1:]
	}
	return client.New(cfg)
}

// print writes v as JSON where that was asked for, else the text.
func (r remote) print(con *console, v any, text string) error {
	if !r.JSON {
		return write(con.out, text)
	}
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return write(con.out, string(line)+"\n")
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// run is the program: it returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (code int) {
	con := &console{in: in, out: out, err: errOut}
	var cli commands
	parser, err := kong.New(&cli,
		kong.Name("rillkeep"), kong.Description(description),
		kong.Writers(out, errOut), kong.Vars{"version": version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { panic(exitStatus(code)) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(con),
	)
	if err != nil {
		con.say("%v", err)
		return exitFailure
	}
	defer func() { // kong's way out of --help and --version
		switch p := recover().(type) {
		case nil:
		case exitStatus:
			code = int(p)
		default:
			panic(p)
		}
	}()
	command, err := parser.Parse(args)
	if err != nil {
		con.say("%v", err)
		con.say("see rillkeep %s--help", commandOf(err))
		return exitUsage
	}
	return exitCode(ctx, command.Run(), con)
}

// commandOf returns the name, and a space, of the command that a command line
// was wrong for, if it got as far as that.
func commandOf(err error) string {
	if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil && pe.Context.Selected() != nil {
		return pe.Context.Selected().Name + " "
	}
	return ""
}

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
