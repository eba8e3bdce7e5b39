package wal

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
)

// Recompressed is the same object as another compressor would have made it.
func Recompressed(t testing.TB, whole []byte) []byte {
	t.Helper()
	meta := stored{}
	size, err := envelope.Open(whole, envelope.WAL, &meta)
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Buffer{}
	if err := New(nil).decompress(whole[size:], meta.Header, &content); err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		t.Fatal(err)
	}
	frame := encoder.EncodeAll(content.Bytes(), nil)
	if bytes.Equal(frame, whole[size:]) {
		t.Fatal("it is compressed in the same way")
	}
	meta.MinLZ, meta.Stored, meta.StoredCRC32C = 0, int64(len(frame)), codec.CRC(frame)
	header, err := envelope.Seal(envelope.WAL, meta)
	if err != nil {
		t.Fatal(err)
	}
	return append(header, frame...)
}
