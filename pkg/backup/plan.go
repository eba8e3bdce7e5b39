package backup

import "iter"

const (
	minFrame = 1 << 20
	maxFrame = 4 << 20
	// manyFrames is how many frames a manifest may have before frames get larger, so that it stays
	// within memory.
	manyFrames = 1 << 20
	// pieceFrames is how many frames a worker takes at a time: enough to read a large file in one
	// go, and few enough that no worker is left alone with the end.
	pieceFrames = 16
)

// frameSize is how much content a frame holds, for a database of the given size.
func frameSize(total int64) int64 {
	size := int64(minFrame)
	for size < maxFrame && total/size > manyFrames {
		size *= 2
	}
	return size
}

// span is a run of bytes of one file.
type span struct {
	file   *entry
	offset int64
	length int64
}

// frameJob is what goes into one frame: a run of a large file, or several small files.
type frameJob []span

// pieces cuts files into jobs for frames of at most size bytes of content, and hands them out in
// bundles. Large files are cut at multiples of size.
func pieces(entries []*entry, size int64) iter.Seq[[]frameJob] {
	return func(yield func([]frameJob) bool) {
		var piece []frameJob
		for job := range frameJobs(entries, size) {
			if piece = append(piece, job); len(piece) < pieceFrames {
				continue
			}
			if !yield(piece) {
				return
			}
			piece = nil
		}
		if len(piece) > 0 {
			yield(piece)
		}
	}
}

func frameJobs(entries []*entry, size int64) iter.Seq[frameJob] {
	return func(yield func(frameJob) bool) {
		var job frameJob
		filled := int64(0)
		for _, e := range entries {
			if e.Kind != Regular || e.Path == controlFile {
				continue
			}
			for offset, end := range e.wanted() {
				for offset < end {
					length := min(size, end-offset)
					if filled > 0 && filled+length > size {
						if !yield(job) {
							return
						}
						job, filled = nil, 0
					}
					job = append(job, span{file: e, offset: offset, length: length})
					filled += length
					offset += length
				}
			}
		}
		if filled > 0 {
			yield(job)
		}
	}
}
