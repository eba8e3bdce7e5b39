package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/minio/minlz"

	"howdah.dev/howdah/test/testkit/heaptest"
)

var decoders Decoders

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
			if err := decoders.DecodeFrame(coding, stored, again); err != nil || !bytes.Equal(again, content) {
				t.Errorf("%s of %s: %v", name, what, err)
			}
			if raw := what == "random" || what == "one byte"; raw != (coding == Raw) {
				t.Errorf("%s of %s has coding %d", name, what, coding)
			}
		}
	}
}

// rows are what many tables hold: lines that differ in a few digits.
func rows(n int) []byte {
	b := make([]byte, 0, n+100)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%08d|%032d|account of a customer, with room for more%30s|", i, i*7919, "")
	}
	return b[:n]
}

// documents have names that come again, and values that don't.
func documents(n int) []byte {
	r, b := rand.New(rand.NewSource(1)), make([]byte, 0, n+200)
	for len(b) < n {
		b = fmt.Appendf(b, `{"user": %d, "email": "%016x@example.com", "items": [%d, %d], "status": "paid"}`, r.Intn(1e6), r.Uint64(), r.Intn(99), r.Intn(99))
	}
	return b[:n]
}

// hexadecimals have nothing that comes again, but half of the bits.
func hexadecimals(n int) []byte { return []byte(hex.EncodeToString(random(n / 2))) }

func TestTheWayIsChosenByWhatIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		level   Level
		content []byte
		want    Coding
	}{
		"rows":                  {Fastest, rows(1 << 20), MinLZThriceZstd},
		"rows, in little time":  {Quick, rows(1 << 20), MinLZThrice},
		"documents":             {Fastest, documents(1 << 20), Zstd},
		"documents, in no time": {Quick, documents(1 << 20), MinLZ},
		"hexadecimals":          {Fastest, hexadecimals(1 << 20), MinLZZstd},
		"random":                {Fastest, random(1 << 20), Raw},
		"random, in no time":    {Quick, random(1 << 20), Raw},
	} {
		t.Run(name, func(t *testing.T) {
			e := encoder(t, test.level)
			if _, coding := e.Encode(test.content, nil); coding != test.want {
				t.Errorf("coding %d", coding)
			}
		})
	}
}

// blockOf is a block of MinLZ.
func blockOf(t testing.TB, content []byte) []byte {
	t.Helper()
	block, err := minlz.Encode(nil, content, minlz.LevelFastest)
	if err != nil {
		t.Fatal(err)
	}
	return block
}

func TestEveryCodingDecodes(t *testing.T) {
	content := rows(1 << 20)
	e := encoder(t, Fastest)
	for coding := MinLZ; coding.Known(); coding++ {
		stored := content
		for range coding.Passes() {
			stored = blockOf(t, stored)
		}
		if coding.Zstd() {
			stored = e.zstd.EncodeAll(stored, nil)
		}
		again := make([]byte, len(content))
		if err := decoders.DecodeFrame(coding, stored, again); err != nil || !bytes.Equal(again, content) || coded(coding.Passes(), coding.Zstd()) != coding {
			t.Errorf("coding %d: %v", coding, err)
		}
	}
}

// A few bytes may claim to be very many: nobody makes room for them.
func TestABlockThatClaimsTooMuchIsDamaged(t *testing.T) {
	bomb := blockOf(t, blockOf(t, make([]byte, 8<<20)))
	if err := decoders.DecodeFrame(MinLZThrice, bomb, make([]byte, 1000)); !errors.Is(err, ErrDamaged) {
		t.Errorf("it is %v", err)
	}
}

// A manifest may say anything of a frame's size.
func TestAFrameThatIsLargerThanABlockCanBeIsDamaged(t *testing.T) {
	for coding := MinLZ; coding.Known(); coding++ {
		if err := decoders.DecodeFrame(coding, blockOf(t, []byte("a row")), make([]byte, minlz.MaxBlockSize+1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("coding %d: %v", coding, err)
		}
	}
}

func TestAnEncoderFindsAnotherWayWhenItIsTold(t *testing.T) {
	e := encoder(t, Fastest)
	codings := func() (all []Coding) {
		for _, content := range [][]byte{rows(1 << 20), documents(1 << 20)} {
			_, coding := e.Encode(content, nil)
			all = append(all, coding)
		}
		return all
	}
	if got := codings(); got[1].Passes() == 0 {
		t.Errorf("without being told: %v", got)
	}
	e.Turn()
	if _, coding := e.Encode(documents(1<<20), nil); coding != Zstd {
		t.Errorf("when told: %v", coding)
	}
}

func TestWhatDoesNotCompressIsNotTakenForAllThatFollows(t *testing.T) {
	e := encoder(t, Fastest)
	for i, test := range []struct {
		content []byte
		want    Coding
	}{{random(1 << 20), Raw}, {rows(1 << 20), MinLZThriceZstd}, {random(1 << 20), Raw}} {
		if _, coding := e.Encode(test.content, nil); coding != test.want {
			t.Errorf("content %d has coding %d", i, coding)
		}
	}
}

func BenchmarkWays(b *testing.B) {
	for what, content := range map[string][]byte{"rows": rows(1 << 20), "documents": documents(1 << 20), "hexadecimals": hexadecimals(1 << 20)} {
		for name, by := range map[string]way{"minlzOften": minlzOften, "minlzOnce": minlzOnce, "minlzBetter": minlzBetter, "zstdOnly": zstdOnly} {
			b.Run(what+"/"+name, func(b *testing.B) {
				e, stored := encoder(b, Fastest), []byte(nil)
				b.SetBytes(int64(len(content)))
				for b.Loop() {
					stored, _ = e.encode(by, content, stored)
				}
				b.ReportMetric(float64(len(content))/float64(len(stored)), "times-smaller")
			})
		}
	}
}

func TestADamagedFrameIsFoundOrDecodesToTheSameSize(t *testing.T) {
	content := bytes.Repeat([]byte("a row of a table, "), 1000)
	for name, level := range levels {
		stored, coding := encoder(t, level).Encode(content, nil)
		for _, broken := range [][]byte{nil, stored[:1], stored[:len(stored)-1], append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, stored...)} {
			if err := decoders.DecodeFrame(coding, broken, make([]byte, len(content))); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s of %d bytes: %v", name, len(broken), err)
			}
		}
		if err := decoders.DecodeFrame(coding, stored, make([]byte, len(content)-1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s into another size: %v", name, err)
		}
	}
	if err := decoders.DecodeFrame(MinLZThriceZstd+1, content, make([]byte, len(content))); !errors.Is(err, ErrDamaged) {
		t.Errorf("an unknown coding: %v", err)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	content := bytes.Repeat([]byte("a row of a table, "), 100)
	for _, level := range levels {
		stored, coding := encoder(f, level).Encode(content, nil)
		f.Add(byte(coding), stored, uint16(len(content)))
	}
	for _, level := range []Level{Quick, Fastest} {
		for _, content := range [][]byte{documents(1000), rows(20000)} {
			stored, coding := encoder(f, level).Encode(content, nil)
			f.Add(byte(coding), stored, uint16(len(content)))
		}
	}
	f.Add(byte(MinLZ), []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, uint16(10))
	f.Add(byte(MinLZ), []byte{0, 0x80, 0x80, 0x80, 4, 0}, uint16(10)) // a block that says that it has 8 MiB
	for coding := range Coding(16) {
		f.Add(byte(coding), []byte{0, 0x80, 0x80, 0x80, 4, 0}, uint16(10))
		f.Add(byte(coding), []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 3, 0, 4, 'x'}, uint16(10))
	}
	f.Fuzz(func(t *testing.T, coding byte, stored []byte, size uint16) {
		dst := make([]byte, int(size)+8)
		copy(dst[size:], "guarded!")
		heaptest.AtMost(t, 6<<20, 64, len(stored), func() { _ = decoders.DecodeFrame(Coding(coding), stored, dst[:size]) })
		if string(dst[size:]) != "guarded!" {
			t.Error("it wrote beyond the content")
		}
	})
}
