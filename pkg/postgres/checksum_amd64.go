package postgres

import "golang.org/x/sys/cpu"

// sumPage uses the processor's wide registers where there are any: page checksums were an eighth of what a backup costs.
func sumPage(page *[PageSize]byte, first *[checksumRow]byte) uint32 {
	if cpu.X86.HasAVX2 {
		return sumPageAVX2(page, first, &checksumBase)
	}
	return sumPagePlain(page, first)
}

// sumPageAVX2 is sumPagePlain, eight lanes at a time.
//
//go:noescape
func sumPageAVX2(page *[PageSize]byte, first *[checksumRow]byte, base *[checksumLanes]uint32) uint32
