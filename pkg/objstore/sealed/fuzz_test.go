package sealed

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"howdah.dev/howdah/test/testkit/heaptest"
)

func FuzzAHeaderIsReadOrRefused(f *testing.F) {
	f.Add(newHeader(dataKey{id: "0123456789abcdef"}, cipherAES, 70_000).marshal())
	f.Add([]byte{})
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		var err error
		heaptest.AtMost(t, 64<<10, 0, len(b), func() { h, err = parseHeader(b) })
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
	claims := newHeader(dataKey{id: "0123456789abcdef"}, cipherAES, 256<<20).marshal() // far more than there is
	f.Add(append(claims, object[headerSize:]...), int64(2), 3)
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
			got, p, stored := 0, make([]byte, n), bytes.Clone(b[from:])
			heaptest.AtMost(t, 1<<20, 4, len(b), func() { got, err = o.read("o", p, stored, off) })
			if got < n && err == nil {
				t.Error("a short read is no error")
			}
		}
		var content []byte
		stored := bytes.Clone(b)
		heaptest.AtMost(t, 1<<20, 4, len(b), func() { content, err = o.openAll(stored) })
		if err == nil && int64(len(content)) != h.size {
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
		var key dataKey
		var err error
		heaptest.AtMost(t, 1<<20, 64, len(body), func() {
			var w wrap
			if w, err = parseWrap(body); err == nil {
				key, err = w.unwrap(keys)
			}
		})
		if err == nil && len(key.secret) != keySize {
			t.Errorf("a data key of %d bytes", len(key.secret))
		}
	})
}
