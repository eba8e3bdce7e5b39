package backup

import "os"

// fileSink writes parts into files, and keeps the last one open, because neighbours in a pack mostly
// belong to one file.
type fileSink struct {
	*restoring
	file   *os.File
	opened *File
}

func (s *fileSink) write(w wish, content []byte) error {
	if s.opened != w.file {
		if err := s.close(); err != nil {
			return err
		}
		root, name := s.locate(w.file.Path)
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		s.file, s.opened = file, w.file
	}
	_, err := s.file.WriteAt(content, w.part.FileOffset)
	return err
}

func (s *fileSink) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.opened = nil, nil
	return err
}
