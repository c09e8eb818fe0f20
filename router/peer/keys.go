package peer

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"sync"
)

// keyLabel separates these keys from any other that the same secret may give.
const keyLabel = "rillkeep peer requests v1\x00"

const macSize = sha256.Size

type mac = [macSize]byte

// key computes one secret's codes. It is safe for concurrent use.
type key struct {
	hashes sync.Pool // of hash.Hash; a keyed hash costs two blocks more to make than to reset
}

func newKey(s Secret, cluster string) (*key, error) {
	k, err := hkdf.Key(sha256.New, []byte(s), nil, keyLabel+cluster, macSize)
	if err != nil {
		return nil, fmt.Errorf("derive the key between members: %w", err)
	}
	return &key{hashes: sync.Pool{New: func() any { return hmac.New(sha256.New, k) }}}, nil
}

func (k *key) sum(message []byte) (m mac) {
	h := k.hashes.Get().(hash.Hash)
	h.Reset()
	h.Write(message)
	h.Sum(m[:0])
	k.hashes.Put(h)
	return m
}

func (k *key) matches(message []byte, m mac) bool {
	own := k.sum(message)
	return hmac.Equal(own[:], m[:])
}

// keyring holds the keys of all secrets; the first signs. An empty one signs
// nothing: certificates authenticate alone.
type keyring []*key

func newKeyring(id Identity) (keyring, error) {
	ring := make(keyring, 0, len(id.Secrets))
	for _, s := range id.Secrets {
		k, err := newKey(s, id.Cluster)
		if err != nil {
			return nil, err
		}
		ring = append(ring, k)
	}
	return ring, nil
}

// find gives the key that made m of message; nil if none did.
func (ring keyring) find(message []byte, m mac) (found *key) {
	for _, k := range ring {
		if k.matches(message, m) && found == nil {
			found = k
		}
	}
	return found
}

var codec = base64.RawURLEncoding.Strict()

func encodeMAC(m mac) string { return codec.EncodeToString(m[:]) }

func decodeMAC(s string) (m mac, ok bool) {
	if len(s) != codec.EncodedLen(macSize) {
		return m, false
	}
	n, err := codec.Decode(m[:], []byte(s))
	return m, err == nil && n == macSize
}

// message is what is signed: each part behind its length, so that no two lists
// of parts make the same bytes.
type message []byte

var messages = sync.Pool{New: func() any { m := make(message, 0, 1<<10); return &m }}

func (m *message) add(part string) {
	*m = append(binary.AppendUvarint(*m, uint64(len(part))), part...)
}

// addHeaders adds all internal headers but the signature, in a fixed order. Their
// names are in canonical form.
func (m *message) addHeaders(h http.Header) {
	var few [16]string
	names := few[:0]
	for name := range h {
		if name != headerSignature && internal(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	*m = binary.AppendUvarint(*m, uint64(len(names)))
	for _, name := range names {
		m.add(name)
		*m = binary.AppendUvarint(*m, uint64(len(h[name])))
		for _, v := range h[name] {
			m.add(v)
		}
	}
}

// withRequest calls f with what a request's signature covers.
func withRequest(method, uri string, h http.Header, f func(message)) {
	m := messages.Get().(*message)
	*m = (*m)[:0]
	m.add("request")
	m.add(method)
	m.add(uri)
	m.addHeaders(h)
	f(*m)
	messages.Put(m)
}

// withAnswer calls f with what an answer's signature covers. The request's code
// binds it to that request and no other.
func withAnswer(request mac, status int, h http.Header, f func(message)) {
	m := messages.Get().(*message)
	*m = (*m)[:0]
	m.add("answer")
	*m = append(*m, request[:]...)
	*m = binary.AppendUvarint(*m, uint64(status))
	m.addHeaders(h)
	f(*m)
	messages.Put(m)
}
