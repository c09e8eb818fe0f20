package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// Exit codes, beside 0 for success.
const (
	exitFailure     = 1 // the command failed
	exitUsage       = 2 // the command line is off
	exitCancelled   = 3 // the stream ended cancelled
	exitError       = 4 // the stream ended with an error
	exitInterrupted = 5 // the stream ended interrupted
	exitNotFound    = 6 // no such stream
	exitDenied      = 7 // no valid token, or one that does not allow this
)

const description = `Rillkeep keeps language-model responses alive: streams that any reader can join
anywhere, at any time, and that survive their connections.

  rillkeep serve                                        run a node on 127.0.0.1:8080
  curl -N … | rillkeep push --format openai m1          feed a model's response into stream m1
  rillkeep tail m1                                      follow it from any terminal

Exit codes: 0 success (tail and push: the stream is complete), 1 failure, 2 usage,
3 cancelled, 4 error, 5 interrupted, 6 not found, 7 not allowed.`

// commands is the command line.
type commands struct {
	Serve  serveCmd  `cmd:"" help:"Run a node."`
	Push   pushCmd   `cmd:"" help:"Feed standard input into a new stream, and seal it as the input ends."`
	Tail   tailCmd   `cmd:"" help:"Follow a stream to its end, through broken connections."`
	Show   showCmd   `cmd:"" help:"Print a stream's text as it is now."`
	Ls     lsCmd     `cmd:"" help:"List streams."`
	Flush  flushCmd  `cmd:"" help:"Wait until everything a stream was given is durable."`
	Cancel cancelCmd `cmd:"" help:"Ask a stream to stop."`
	Token  tokenCmd  `cmd:"" help:"Mint a token."`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// console is what a command talks to.
type console struct {
	in       io.Reader
	out, err io.Writer
}

// remote is where the commands for streams find the server.
type remote struct {
	Server string `help:"Base URL of a node." env:"RILLKEEP_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL"`
	Token  string `help:"Token to send; better given by the environment." env:"RILLKEEP_TOKEN" placeholder:"TOKEN"`
	JSON   bool   `help:"Print JSON, one value a line." name:"json"`
}

func (r remote) client() (*client.Client, error) {
	return client.New(client.Config{Server: r.Server, Token: r.Token})
}

// exitStatus is an error that is only an exit code: what there is to say was
// said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run is the program: it returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (code int) {
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("rillkeep"), kong.Description(description),
		kong.Writers(out, errOut), kong.Vars{"version": version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { exited = code; panic(exitStatus(code)) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&console{in, out, errOut}),
	)
	if err != nil {
		fmt.Fprintln(errOut, "rillkeep:", err)
		return exitFailure
	}
	defer func() { // kong's way out of --help and --version
		if p := recover(); p != nil {
			if _, ours := p.(exitStatus); !ours || exited < 0 {
				panic(p)
			}
			code = exited
		}
	}()
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(errOut, "rillkeep: %v\nSee rillkeep --help.\n", err)
		return exitUsage
	}
	return exitCode(command.Run(), errOut)
}

// exitCode says what went wrong, and with what code to exit.
func exitCode(err error, errOut io.Writer) int {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	var said *wire.Error
	message := err.Error()
	if errors.As(err, &said) {
		message = said.Message
	}
	fmt.Fprintln(errOut, "rillkeep:", message)
	switch {
	case errors.Is(err, plane.ErrNotFound):
		return exitNotFound
	case errors.Is(err, plane.ErrDenied), errors.Is(err, wire.ErrUnauthorized):
		return exitDenied
	default:
		return exitFailure
	}
}

// statusCode is the exit code for how a stream ended.
func statusCode(s plane.Status) error {
	switch s {
	case plane.StatusComplete:
		return nil
	case plane.StatusCancelled:
		return exitStatus(exitCancelled)
	case plane.StatusError:
		return exitStatus(exitError)
	default:
		return exitStatus(exitInterrupted)
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "rillkeep (unknown version)"
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = " " + s.Value
		}
	}
	return strings.TrimSpace("rillkeep " + info.Main.Version + revision + " " + info.GoVersion)
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
