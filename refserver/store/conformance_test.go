package store_test

import (
	"testing"

	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/gapless-dev/gapless/refserver/store/storetest"
)

func TestMemory_PassesTheSuite_WhateverItsLocks(t *testing.T) {
	for _, scope := range []lock.Scope{lock.Stream, lock.Session, lock.Global} {
		t.Run(scope.String(), func(t *testing.T) {
			storetest.Run(t, func(t testing.TB, limits store.Limits) store.Store {
				m, err := store.NewMemory(store.MemoryConfig{Limits: limits, Lock: scope})
				if err != nil {
					t.Fatal(err)
				}
				return m
			})
		})
	}
}
