package wire

import "testing"

const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"the quick brown fox jumps over the lazy dog and runs away from it as fast as it can","progress":17,"progressToken":"g0123abcd.1.2.0123456789abcdef","total":50}}`

func TestScanProgress(t *testing.T) {
	var m Message
	Scan([]byte(progress), &m)
	if m.Kind != KindNotification || !m.IsProgress() || string(m.Token) != "g0123abcd.1.2.0123456789abcdef" ||
		m.Progress != 17 || m.Total != 50 || !m.HasProgress || !m.HasTotal || m.Illegal != 0 || m.Loose {
		t.Errorf("%+v", m)
	}
}

func BenchmarkScan(b *testing.B) {
	var m Message
	data := []byte(progress)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		Scan(data, &m)
	}
}
