package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/generate/modeltest"
)

// stock is what a provider's own client got of a completion.
type stock struct {
	Text, Finish, ID string
	Error            *stockError
}

type stockError struct {
	Status        int
	Code, Message string
}

// stockClients are the clients that OpenAI makes, which know nothing of Rillkeep but
// its address. They ask for a stream, or for all at once.
var stockClients = map[string]func(t *testing.T, n *running, id string, stream bool) stock{
	"Go": openAIGo, "Node": openAINode,
}

func openAIGo(t *testing.T, n *running, id string, stream bool) (got stock) {
	t.Helper()
	var resp *http.Response
	c := openai.NewClient(option.WithBaseURL(n.URL()+"/v1"), option.WithAPIKey("none"),
		option.WithHeader(streamIDHeader, id), option.WithResponseInto(&resp))
	params := openai.ChatCompletionNewParams{Model: "m-large", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if stream {
		chunks := c.Chat.Completions.NewStreaming(ctx, params)
		defer chunks.Close()
		for chunks.Next() {
			for _, choice := range chunks.Current().Choices {
				got.Text += choice.Delta.Content
				if choice.FinishReason != "" {
					got.Finish = choice.FinishReason
				}
			}
		}
		err = chunks.Err()
	} else if whole, failure := c.Chat.Completions.New(ctx, params); failure != nil {
		err = failure
	} else {
		got.Text, got.Finish = whole.Choices[0].Message.Content, whole.Choices[0].FinishReason
	}
	if resp != nil {
		got.ID = resp.Header.Get(streamIDHeader)
	}
	if err != nil {
		got.Error = &stockError{Message: err.Error()}
		if said, ok := errors.AsType[*openai.Error](err); ok {
			got.Error.Status, got.Error.Code = said.StatusCode, said.Code
		}
	}
	return got
}

func openAINode(t *testing.T, n *running, id string, stream bool) (got stock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.js", n.URL()+"/v1", id, fmt.Sprint(stream))
	cmd.Dir = "testdata/openai"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v (.ci/tools installs what it needs)", err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return got
}

func TestStockOpenAIClientsAreServed(t *testing.T) {
	t.Parallel()
	for name, client := range stockClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usage := response(t, "openai-usage.sse")
			p := modeltest.New(t,
				modeltest.Answer{Body: usage, Cuts: modeltest.Every(37, len(usage))},
				modeltest.Answer{Body: response(t, "whole-completion.json"), Header: map[string]string{"Content-Type": "application/json"}},
				modeltest.Answer{Body: response(t, "error-a-data-error.sse")},
				modeltest.Answer{Body: response(t, "openai-cut.sse"), Ending: modeltest.Cut},
				modeltest.Answer{Status: 422, Body: []byte(`{"error":{"message":"no such thing"}}`)},
			)
			nodes := openCluster(t, 2, calling(p))
			for i, tt := range []struct {
				stream       bool
				text, finish string
				fails        bool
				status       int // of the failure, if it has one
				ended        plane.Status
			}{
				{true, "Hello there", "stop", false, 0, plane.StatusComplete},
				{false, "Whole answer.", "stop", false, 0, plane.StatusComplete},
				{true, "Partial", "", true, 0, plane.StatusError},
				{true, "Some of it", "", true, 0, plane.StatusInterrupted},
				{true, "", "", true, 422, plane.StatusError},
			} {
				id := fmt.Sprint(name, i)
				got := client(t, nodes[i%2], id, tt.stream)
				if got.Text != tt.text || got.Finish != tt.finish || (got.Error != nil) != tt.fails || tt.status == 0 && got.ID != id {
					t.Errorf("%d: %+v (%+v), want %+v", i, got, got.Error, tt)
				}
				if tt.status != 0 && got.Error != nil && (got.Error.Status != tt.status || got.Error.Code != "upstream") {
					t.Errorf("%d: %+v", i, got.Error)
				}
				snap := nodes[1-i%2].awaitEnd(id)
				if ended(t, snap) != tt.ended || snap.Text != tt.text {
					t.Errorf("%d: %+v", i, snap)
				}
			}
			if calls := len(p.Calls()); calls != 5 {
				t.Errorf("%d calls: something was asked for again", calls)
			}
		})
	}
}
