package codec

import (
	"bytes"
	"errors"
	"math/rand"
	"testing"
)

var levels = map[string]Level{"quick": Quick, "fastest": Fastest, "default": Default}

func encoder(t testing.TB, level Level) *FrameEncoder {
	t.Helper()
	e, err := NewFrameEncoder(level, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(1)).Read(b)
	return b
}

func TestAFrameDecodesToItsContentAtEveryLevel(t *testing.T) {
	contents := map[string][]byte{
		"one byte": {1}, "text": bytes.Repeat([]byte("a row of a table, "), 5000), "zeroes": make([]byte, 1<<20), "random": random(1 << 20),
	}
	for name, level := range levels {
		e := encoder(t, level)
		for what, content := range contents {
			stored, coding := e.Encode(content, make([]byte, 0, 1<<20))
			again := make([]byte, len(content))
			if err := DecodeFrame(coding, stored, again); err != nil || !bytes.Equal(again, content) {
				t.Errorf("%s of %s: %v", name, what, err)
			}
			if raw := what == "random" || what == "one byte"; raw != (coding == Raw) {
				t.Errorf("%s of %s has coding %d", name, what, coding)
			}
		}
	}
}

func TestADamagedFrameIsFoundOrDecodesToTheSameSize(t *testing.T) {
	content := bytes.Repeat([]byte("a row of a table, "), 1000)
	for name, level := range levels {
		stored, coding := encoder(t, level).Encode(content, nil)
		for _, broken := range [][]byte{nil, stored[:1], stored[:len(stored)-1], append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, stored...)} {
			if err := DecodeFrame(coding, broken, make([]byte, len(content))); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s of %d bytes: %v", name, len(broken), err)
			}
		}
		if err := DecodeFrame(coding, stored, make([]byte, len(content)-1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s into another size: %v", name, err)
		}
	}
	if err := DecodeFrame(S2+1, content, make([]byte, len(content))); !errors.Is(err, ErrDamaged) {
		t.Errorf("an unknown coding: %v", err)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	content := bytes.Repeat([]byte("a row of a table, "), 100)
	for _, level := range levels {
		stored, coding := encoder(f, level).Encode(content, nil)
		f.Add(byte(coding), stored, uint16(len(content)))
	}
	f.Add(byte(S2), []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, uint16(10))
	f.Fuzz(func(t *testing.T, coding byte, stored []byte, size uint16) {
		dst := make([]byte, int(size)+8)
		copy(dst[size:], "guarded!")
		_ = DecodeFrame(Coding(coding), stored, dst[:size])
		if string(dst[size:]) != "guarded!" {
			t.Error("it wrote behind the content")
		}
	})
}
