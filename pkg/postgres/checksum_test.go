package postgres

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"math/rand"
	"os"
	"testing"
)

// heapPage is block 1 of a table of a real server (PostgreSQL 15, initdb -k).
func heapPage(t testing.TB) []byte {
	text, err := os.ReadFile("testdata/heap-page-1.gz.base64")
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestAPageOfARealServerHasTheChecksumInItsHeader(t *testing.T) {
	page := heapPage(t)
	if ok, lsn, isNew := CheckPage(page, 1); !ok || isNew || lsn == 0 {
		t.Errorf("block 1: %v, %v, %v", ok, lsn, isNew)
	}
	if ok, _, _ := CheckPage(page, 2); ok {
		t.Error("the page is accepted in another place")
	}
}

func TestAnyFlippedByteOfAPageIsFound(t *testing.T) {
	page := heapPage(t)
	for i := range page {
		if i == 14 || i == 15 {
			continue // pd_upper: zero means a new page, tested below
		}
		page[i] ^= 0x10
		if ok, _, _ := CheckPage(page, 1); ok {
			t.Errorf("byte %d", i)
		}
		page[i] ^= 0x10
	}
}

func TestANewPageIsFineOnlyWhenItIsAllZero(t *testing.T) {
	page := make([]byte, PageSize)
	if ok, lsn, isNew := CheckPage(page, 7); !ok || !isNew || lsn != 0 {
		t.Errorf("zeroes: %v %v %v", ok, lsn, isNew)
	}
	page[PageSize-1] = 1
	if ok, _, isNew := CheckPage(page, 7); ok || !isNew {
		t.Errorf("one byte set: %v %v", ok, isNew)
	}
}

// slowChecksum is the algorithm as it is described, lane by lane.
func slowChecksum(page []byte, blkno uint32) uint16 {
	sums := checksumBase
	page = bytes.Clone(page)
	page[8], page[9] = 0, 0
	for row := range PageSize/checksumRow + 2 {
		for lane := range sums {
			var v uint32
			if at := row*checksumRow + 4*lane; at < PageSize {
				v = uint32(page[at]) | uint32(page[at+1])<<8 | uint32(page[at+2])<<16 | uint32(page[at+3])<<24
			}
			sums[lane] = mix(sums[lane], v)
		}
	}
	for _, s := range sums {
		blkno ^= s
	}
	return uint16(blkno%65535 + 1)
}

func TestTheFastChecksumIsTheSimpleOne(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	page := make([]byte, PageSize)
	for range 200 {
		random.Read(page)
		before := bytes.Clone(page)
		blkno := random.Uint32()
		want := slowChecksum(page, blkno)
		if got := PageChecksum(page, blkno); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
		first := [checksumRow]byte(page)
		first[8], first[9] = 0, 0
		if got := uint16((sumPagePlain((*[PageSize]byte)(page), &first)^blkno)%65535) + 1; got != want {
			t.Fatalf("got %d without wide registers, want %d", got, want)
		}
		if !bytes.Equal(page, before) {
			t.Fatal("the page was changed")
		}
	}
}

func BenchmarkPageChecksum(b *testing.B) {
	page := heapPage(b)
	b.SetBytes(PageSize)
	for b.Loop() {
		PageChecksum(page, 1)
	}
}
