package guard

import (
	"errors"
	"strings"
	"testing"
)

func TestWait(t *testing.T) {
	var calm Group
	ran := false
	calm.Go(func() { ran = true })
	if err := calm.Wait(); err != nil || !ran {
		t.Fatalf("Wait() = %v, ran %v; want nil and true", err, ran)
	}

	stopped := make(chan struct{})
	g := Group{OnPanic: func() { close(stopped) }}
	g.Go(func() { <-stopped })
	g.Go(func() { explode() })
	err := g.Wait()
	var p *PanicError
	if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(string(p.Stack), "explode") {
		t.Fatalf("Wait() = %v; want the panic and the function that raised it", err)
	}
}

func explode() { panic("boom") }
