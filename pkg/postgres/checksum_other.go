//go:build !amd64

package postgres

func sumPage(page *[PageSize]byte, first *[checksumRow]byte) uint32 { return sumPagePlain(page, first) }
