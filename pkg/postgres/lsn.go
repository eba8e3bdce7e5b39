package postgres

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrSyntax is wrapped by every error that says that a text or file is not what it should be.
var ErrSyntax = errors.New("malformed")

// LSN is a position in the write-ahead log, in bytes. Zero is no position.
type LSN uint64

// ParseLSN reads PostgreSQL's text form, "16/B374D848".
func ParseLSN(s string) (LSN, error) {
	high, low, found := strings.Cut(s, "/")
	if !found {
		return 0, fmt.Errorf("%w LSN %q: write it like 16/B374D848", ErrSyntax, s)
	}
	h, errHigh := parseHex32(high)
	l, errLow := parseHex32(low)
	if errHigh != nil || errLow != nil {
		return 0, fmt.Errorf("%w LSN %q: write it like 16/B374D848", ErrSyntax, s)
	}
	return LSN(uint64(h)<<32 | uint64(l)), nil
}

// parseHex32 accepts one to eight hexadecimal digits and nothing else.
func parseHex32(s string) (uint32, error) {
	if len(s) == 0 || len(s) > 8 || strings.ContainsAny(s, "+-_") {
		return 0, ErrSyntax
	}
	n, err := strconv.ParseUint(s, 16, 32)
	return uint32(n), err
}

// String is PostgreSQL's text form.
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l))
}

// IsZero says that there is no position; it makes `json:",omitzero"` work.
func (l LSN) IsZero() bool { return l == 0 }

// Add moves forward by n bytes, backward if n is negative.
func (l LSN) Add(n int64) LSN { return l + LSN(n) }

// Sub is the distance in bytes from other to l; negative if l lies before other.
func (l LSN) Sub(other LSN) int64 { return int64(l - other) }

// MarshalText writes String(); no position is the empty text.
func (l LSN) MarshalText() ([]byte, error) {
	if l == 0 {
		return []byte{}, nil
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (l *LSN) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = 0
		return nil
	}
	parsed, err := ParseLSN(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
