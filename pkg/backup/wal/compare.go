package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// compare tells a repeated put from a second writer: ours is the content that was to be put, as a frame.
func (a *Archive) compare(ctx context.Context, lineage, key string, ours Header, frame []byte) error {
	there, theirs, err := a.read(ctx, key, ours.Name)
	if err != nil {
		return fmt.Errorf("%s is archived already, and can't be compared: %w", ours.Name, err)
	}
	same := theirs.RawSize == ours.RawSize && theirs.CRC32C == ours.CRC32C
	if same && !bytes.Equal(there, frame) {
		if same, err = a.sameContent(there, theirs, frame, ours); err != nil {
			return fmt.Errorf("%s is archived already, and can't be compared: %s: %w", ours.Name, key, err)
		}
	}
	if !same {
		return &ConflictError{Lineage: lineage, Name: ours.Name, Writer: ours.Writer, Other: theirs.Writer}
	}
	return nil
}

// sameContent compares what two frames hold, byte by byte: an older version may have compressed it in another way.
func (a *Archive) sameContent(there []byte, theirs Header, frame []byte, ours Header) (bool, error) {
	content, err := (&unpacker{}).open(frame, ours.MinLZ)
	if err != nil {
		return false, err
	}
	other := &comparer{with: content}
	err = a.decompress(there, theirs, other)
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil && theirs.RawSize == ours.RawSize, err
}

// comparer compares what is written to it with what a reader gives.
type comparer struct {
	with   io.Reader
	buffer []byte
}

var errDiffers = errors.New("another content")

func (c *comparer) Write(p []byte) (int, error) {
	c.buffer = slices.Grow(c.buffer[:0], len(p))[:len(p)]
	if _, err := io.ReadFull(c.with, c.buffer); err != nil {
		return 0, err
	}
	if !bytes.Equal(c.buffer, p) {
		return 0, errDiffers
	}
	return len(p), nil
}
