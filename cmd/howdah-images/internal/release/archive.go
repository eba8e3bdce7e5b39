package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"time"
)

// member is a file of an archive.
type member struct {
	path string
	mode int64
	data []byte
}

// tarball packs files, owned by root and all of one time, so that only their content counts.
func tarball(members []member, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, m := range members {
		header := &tar.Header{Name: m.path, Mode: m.mode, Size: int64(len(m.data)), ModTime: modified.UTC().Truncate(time.Second), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(m.data); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err = compressed.Close()
	return out.Bytes(), err
}
