package datagram

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// A packet has one size: magic, kind, the number of the key, four numbers, and an HMAC-SHA256 of all that.
const (
	magic   = "HWD1"
	idSize  = 16
	keySize = 32

	kindAt = len(magic)
	idAt   = kindAt + 1
	bodyAt = idAt + idSize
	sumAt  = bodyAt + 4*8
	size   = sumAt + sha256.Size
)

// The kinds: nobody can send a question back as its answer.
const (
	question byte = 'Q'
	answer   byte = 'A'
)

// id says which key a packet was signed with.
type id [idSize]byte

// packet is what a datagram says. An answer repeats the question.
type packet struct {
	kind     byte
	key      id
	term     int64
	sequence int64
	number   elect.Time
	expire   time.Duration
}

var (
	errForeign = errors.New("this is neither a request for an acknowledgment nor an answer to one")
	errForged  = errors.New("the datagram is not signed with the key that was agreed on")
)

// signed is the datagram.
func (p *packet) signed(key []byte) []byte {
	out := make([]byte, 0, size)
	out = append(out, magic...)
	out = append(out, p.kind)
	out = append(out, p.key[:]...)
	for _, number := range []int64{p.term, p.sequence, int64(p.number), int64(p.expire)} {
		out = binary.BigEndian.AppendUint64(out, uint64(number))
	}
	return append(out, sum(out, key)...)
}

func sum(of, key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(of)
	return mac.Sum(nil)
}

// parse what a datagram says. Who has sent it is not known yet: verify tells.
func parse(raw []byte) (packet, error) {
	if len(raw) != size || string(raw[:kindAt]) != magic || raw[kindAt] != question && raw[kindAt] != answer {
		return packet{}, errForeign
	}
	p := packet{kind: raw[kindAt], key: id(raw[idAt:bodyAt])}
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(raw[bodyAt+8*i:])) }
	p.term, p.sequence, p.number, p.expire = number(0), number(1), elect.Time(number(2)), time.Duration(number(3))
	return p, nil
}

// verify that whoever has the key has sent a datagram that was parsed.
func verify(raw, key []byte) error {
	if !hmac.Equal(raw[sumAt:], sum(raw[:sumAt], key)) {
		return errForged
	}
	return nil
}
