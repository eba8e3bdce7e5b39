package codec

import (
	"math/rand/v2"
	"testing"
)

func TestChecksumsOfPartsCombineToThatOfTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		whole := make([]byte, random.IntN(1<<17))
		for i := range whole {
			whole[i] = byte(random.Uint32())
		}
		combined := CRC(nil)
		for rest := whole; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			combined = Combine(combined, CRC(rest[:n]), int64(n))
			rest = rest[n:]
		}
		if combined != CRC(whole) {
			t.Fatalf("%d bytes: %08x, and combined %08x", len(whole), CRC(whole), combined)
		}
	}
	if Combine(7, CRC(nil), 0) != 7 {
		t.Error("nothing changes the checksum")
	}
}

func BenchmarkCombine(b *testing.B) {
	for range b.N {
		Combine(1, 2, 1<<20)
	}
}
