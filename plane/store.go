package plane

import (
	"context"
	"encoding/json"
)

// Store is the durable plane as one stream needs it. Calls for one stream never
// overlap, but for Read; calls for different streams do. Each call gets a
// context with a deadline that no client's leaving cancels.
//
// A method that fails may or may not have taken effect: the stream finds out by
// Read. The refusals of Open are final and so, for one round, is ErrBroken; every
// other error is retried, in case the store recovers.
type Store interface {
	// Open claims the row of claim.ID for claim.Node: a compare-and-swap that
	// sets status streaming, a new epoch (the row's plus one) and the owner
	// token of claim.Node in that epoch, and answers the row as it is then. Whether the
	// row is created, or must be there, is the store's mode.
	//
	// It refuses, changing nothing, with ErrNotFound (no row), ErrNullLength,
	// ErrExists (the row holds text, its length is not 0, or chunk rows are
	// left), ErrHeld (streaming under another node's token) or ErrLostRace.
	// A row that is streaming, empty, under a token of claim.Node itself is a
	// claim whose answer was lost: it is answered as if just claimed.
	Open(ctx context.Context, claim Claim) (Row, error)

	// Append adds slice.Text if the row's length is slice.From, its status
	// streaming and its token slice.Token, and answers the row as it is then,
	// whether or not anything was added: the caller compares. One statement:
	// the row is locked before its length is compared. A repeat adds nothing.
	// ErrNotFound if there is no row.
	Append(ctx context.Context, slice Slice) (Row, error)

	// Seal makes seal.Text, preceded by what the store holds below seal.Base,
	// the whole text, drops the chunks, and sets status, length and error in
	// one transaction, if the token is seal.Token and the status streaming; it
	// makes no text shorter than the row says it is. A row whose cancel flag is set ends cancelled where complete was asked.
	// seal.Meta replaces the row's, where the store keeps any. It answers the row as it is then, whether or not it changed anything. The
	// token stays in the row, so that a lost answer can be told from a loss.
	//
	// Where text below seal.Base is missing, the stream ends interrupted where the
	// text that is there ends, below seal.Base, with an error that says so. Chunks
	// from beyond stay.
	Seal(ctx context.Context, seal Seal) (Row, error)

	// Read answers the row as it is. ErrNotFound if there is none,
	// ErrNoReadBack if this store cannot.
	Read(ctx context.Context, id string) (Row, error)
}

// Row is what a store says of one stream.
type Row struct {
	Seq    int64  // durable length, UTF-16 code units
	Status Status // "" where the store keeps none (callback mode)
	Cancel bool   // the cancel flag
	Token  string // owner token, see MakeToken; "" where the store keeps none. It stays when the stream has ended
	Epoch  int64  // from 1
	Error  string

	// Producer is who produces, as claimed: where a stream was opened, adopted or taken
	// over, and not in the answers of other calls. A store that keeps none answers what
	// the call itself says, and "" to an adoption.
	Producer string
}

// Claim asks for a stream.
type Claim struct {
	ID       string
	Node     string          // node/incarnation: the owner token without its epoch
	Producer string          // who produces; free text, may be ""
	Meta     json.RawMessage // the application's, kept as it is; may be nil
}

// Slice is one checkpoint: the text from From up to Seq.
type Slice struct {
	ID, Token string
	From, Seq int64 // UTF-16 code units; Seq-From == Units(Text)
	Text      string
}

// Seal is the last write of a stream.
type Seal struct {
	ID, Token string
	Status    Status // one that ends
	Error     string // with StatusError
	HasError  bool   // an error with an empty message is still one
	From      int64  // durable length so far; the store may lack the text from there on
	Base      int64  // where Text begins; 0 unless text below was trimmed
	Seq       int64  // whole length; Seq-Base == Units(Text)
	Text      string
	Meta      json.RawMessage // in place of the row's; nil leaves that. Valid JSON
}
