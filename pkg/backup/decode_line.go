package backup

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"howdah.dev/howdah/pkg/backup/internal/codec"
)

// sharedFrames are some of those that were read, by what frameID has of them: parts that lie near each other are of few frames.
type sharedFrames [1 << 10]*Frame

// share returns a frame that is equal, if there was one lately.
func (s *sharedFrames) share(f Frame) *Frame {
	id := frameID(&f) * 0x9e3779b97f4a7c15 // spreads them
	slot := &s[id>>54]
	if *slot == nil || **slot != f {
		*slot = &f
	}
	return *slot
}

func parseFile(b []byte, frames *sharedFrames) (File, error) {
	parts, rest, err := cutParts(b, frames)
	if err != nil {
		return File{}, err
	}
	l := line{}
	if err := json.Unmarshal(rest, &l); err != nil {
		return File{}, err
	}
	f := File{Kind: l.Kind, Size: l.Size, MTime: l.MTime, Parts: parts}
	var errPath, errLink, errMode, errParts error
	f.Path, errPath = unprintable(l.Path, l.Path64)
	f.Link, errLink = unprintable(l.Link, l.Link64)
	f.Mode, errMode = parseMode(l.Mode)
	if len(l.Parts) > 0 && string(l.Parts) != noParts {
		errParts = errManifest // there are others than those that were cut out
	}
	return f, errors.Join(errPath, errLink, errMode, errParts)
}

const (
	partsKey = `"parts":`
	noParts  = "null"
)

// cutParts reads the parts of a line, of which a large database has many, without what encoding/json would need for them.
// It returns the line without them. They begin at a key: in a string its quotes would have backslashes.
func cutParts(b []byte, frames *sharedFrames) (parts []Part, rest []byte, err error) {
	before, list, found := bytes.Cut(b, []byte(partsKey+"[["))
	if !found {
		return []Part{}, b, nil
	}
	list, after, found := bytes.Cut(list, []byte("]]"))
	if !found {
		return nil, nil, errManifest
	}
	parts = make([]Part, 0, 1+bytes.Count(list, []byte("],[")))
	for more := true; more; {
		var columns []byte
		columns, list, more = bytes.Cut(list, []byte("],["))
		part, err := parsePart(columns, frames)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part)
	}
	return parts, bytes.Join([][]byte{before, after}, []byte(partsKey+noParts)), nil
}

// parsePart reads numbers with commas between them.
func parsePart(b []byte, frames *sharedFrames) (Part, error) {
	var columns [partColumns]int64
	count := 0
	for more := true; more; count++ {
		var digits []byte
		digits, b, more = bytes.Cut(b, []byte(","))
		if count == partColumns {
			return Part{}, errManifest
		}
		n, ok := number(digits)
		if !ok || count > 0 && n > math.MaxUint32 {
			return Part{}, errManifest
		}
		columns[count] = n
	}
	if count != partColumns && count != minPartColumns {
		return Part{}, errManifest
	}
	if columns[9] > math.MaxUint8 || !codec.Coding(columns[9]).Known() {
		return Part{}, fmt.Errorf("%w: a frame has coding %d", ErrFormat, columns[9])
	}
	return Part{
		FileOffset: columns[0], Length: uint32(columns[1]), Skip: uint32(columns[2]),
		Frame: frames.share(Frame{
			Pack: uint32(columns[3]), Offset: uint32(columns[4]), Stored: uint32(columns[5]), Content: uint32(columns[6]),
			StoredCRC: uint32(columns[7]), ContentCRC: uint32(columns[8]), Coding: codec.Coding(columns[9]),
			Digest: uint64(columns[10])<<32 | uint64(columns[11]), // none: 0
		}),
	}, nil
}

// number reads decimal digits, as encoding/json would.
func number(digits []byte) (n int64, ok bool) {
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	for _, digit := range digits {
		if digit < '0' || digit > '9' || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = 10*n + int64(digit-'0')
	}
	return n, true
}

func unprintable(plain, encoded string) (string, error) {
	if encoded == "" {
		return plain, nil
	}
	name, err := base64.StdEncoding.DecodeString(encoded)
	return string(name), err
}

func parseMode(octal string) (fs.FileMode, error) {
	if octal == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(octal, 8, 9)
	return fs.FileMode(mode), err
}
