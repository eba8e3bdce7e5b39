package postgres

import (
	"encoding/binary"
	"fmt"
)

// PageSize is the size of a data page in bytes (BLCKSZ of every packaged build).
const PageSize = 8192

// A page is summed as 64 rows of 32 lanes of 32 bits, each lane an FNV-1a hash of its own.
const (
	checksumLanes = 32
	checksumRow   = 4 * checksumLanes
	fnvPrime      = 16777619
)

// checksumBase starts the lanes, so that they differ for equal data (checksum_impl.h).
var checksumBase = [checksumLanes]uint32{
	0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
	0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
	0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
	0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
}

// PageChecksum is the checksum that PostgreSQL stores in the header of this page, block blkno of
// its relation (counted over all segments of the relation). It does not change the page, and
// panics unless the page is PageSize long.
func PageChecksum(page []byte, blkno uint32) uint16 {
	if len(page) != PageSize {
		panic(fmt.Sprintf("postgres: a page of %d bytes", len(page)))
	}
	// The first row is summed from a copy, where the checksum itself reads as zero.
	var first [checksumRow]byte
	copy(first[:], page)
	first[8], first[9] = 0, 0

	return uint16((sumPage((*[PageSize]byte)(page), &first)^blkno)%65535) + 1
}

// sumPagePlain hashes all lanes, with another first row than the page's.
func sumPagePlain(page *[PageSize]byte, first *[checksumRow]byte) (sum uint32) {
	for lane := 0; lane < checksumLanes; lane += 8 {
		sum ^= sumLanes(page, first, lane)
	}
	return sum
}

// sumLanes hashes eight neighbouring lanes: as many as registers hold, and enough to hide the
// latency of the multiplication.
func sumLanes(page *[PageSize]byte, first *[checksumRow]byte, lane int) uint32 {
	s := (*[8]uint32)(checksumBase[lane:])
	a, b, c, d, e, f, g, h := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	row := (*[32]byte)(first[4*lane:])
	for next := checksumRow + 4*lane; ; next += checksumRow {
		a = mix(a, binary.LittleEndian.Uint32(row[0:]))
		b = mix(b, binary.LittleEndian.Uint32(row[4:]))
		c = mix(c, binary.LittleEndian.Uint32(row[8:]))
		d = mix(d, binary.LittleEndian.Uint32(row[12:]))
		e = mix(e, binary.LittleEndian.Uint32(row[16:]))
		f = mix(f, binary.LittleEndian.Uint32(row[20:]))
		g = mix(g, binary.LittleEndian.Uint32(row[24:]))
		h = mix(h, binary.LittleEndian.Uint32(row[28:]))
		if next >= PageSize {
			break
		}
		row = (*[32]byte)(page[next:])
	}
	// Two more rows of zeroes mix the last row in well.
	sum := uint32(0)
	for _, v := range [8]uint32{a, b, c, d, e, f, g, h} {
		sum ^= mix(mix(v, 0), 0)
	}
	return sum
}

func mix(sum, value uint32) uint32 {
	t := sum ^ value
	return t*fnvPrime ^ t>>17
}

// CheckPage checks one page as it was read from a relation's file. lsn is the position of the last
// change to it. A page that was never used (isNew) has no checksum; it is ok if it is all zero. It
// panics on less than PageSize bytes.
func CheckPage(page []byte, blkno uint32) (ok bool, lsn LSN, isNew bool) {
	_ = (*[PageSize]byte)(page)
	lsn = LSN(uint64(binary.LittleEndian.Uint32(page))<<32 | uint64(binary.LittleEndian.Uint32(page[4:])))
	if binary.LittleEndian.Uint16(page[14:]) == 0 { // pd_upper
		return AllZero(page), lsn, true
	}
	return binary.LittleEndian.Uint16(page[8:]) == PageChecksum(page, blkno), lsn, false
}

// AllZero says whether there is nothing but zeroes in b.
func AllZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
