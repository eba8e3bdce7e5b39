package sealed

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

func FuzzAHeaderIsReadOrRefused(f *testing.F) {
	f.Add(newHeader(dataKey{id: "0123456789abcdef"}, cipherAES, 70_000).marshal())
	f.Add([]byte{})
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		if !bytes.Equal(h.marshal(), b[:headerSize]) {
			t.Errorf("%x is read as %x", b[:headerSize], h.marshal())
		}
		if got := contentSize(sealedSize(h.size)); got != h.size {
			t.Errorf("%d bytes are said to be %d", h.size, got)
		}
	})
}

func FuzzAnObjectIsOpenedOrRefused(f *testing.F) {
	h := newHeader(dataKey{id: "0123456789abcdef"}, cipherAES, 5)
	o, _ := newOpener(dataKey{secret: bytes.Repeat([]byte{1}, keySize)}, h, "o")
	object, _ := o.seal(h.marshal(), []byte("hello"))
	f.Add(object, int64(2), 3)
	f.Fuzz(func(t *testing.T, b []byte, off int64, n int) {
		h, err := parseHeader(b)
		if err != nil || off < 0 || n < 0 || n > 1<<20 || off > maxContent {
			return
		}
		o, err := newOpener(dataKey{secret: bytes.Repeat([]byte{1}, keySize)}, h, "o")
		if err != nil {
			t.Fatal(err)
		}
		if from := o.at(off / chunkSize); from <= int64(len(b)) {
			if got, err := o.read("o", make([]byte, n), bytes.Clone(b[from:]), off); got < n && err == nil {
				t.Error("a short read is no error")
			}
		}
		if content, err := o.openAll(bytes.Clone(b)); err == nil && int64(len(content)) != h.size {
			t.Errorf("opened %d bytes of %d", len(content), h.size)
		}
	})
}

func FuzzAWrapIsReadOrRefused(f *testing.F) {
	keys := Keys{current: "k1", byName: map[string][]byte{"k1": bytes.Repeat([]byte{1}, keySize)}}
	w, _ := wrapKey(newDataKey("", keys, time.Unix(1, 0)), keys, "k1", time.Unix(1, 0))
	body, _ := json.Marshal(w)
	f.Add(body)
	f.Add([]byte(`{"format":1,"id":"0123456789abcdef","key":"k1","nonce":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := parseWrap(body)
		if err != nil {
			return
		}
		if key, err := w.unwrap(keys); err == nil && len(key.secret) != keySize {
			t.Errorf("a data key of %d bytes", len(key.secret))
		}
	})
}
