package main

import (
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// Every control plane has a network namespace to itself, so the ports are always free.
const (
	etcdURL = "http://127.0.0.1:2379"
	peerURL = "http://127.0.0.1:2380"
)

func startEtcd(dir string) (*embed.Etcd, error) {
	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "error"
	// What is written survives the process, and need not survive the machine.
	config.UnsafeNoFsync = true
	client, err := url.Parse(etcdURL)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	store, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-store.Server.ReadyNotify():
		return store, nil
	case <-time.After(time.Minute):
		store.Close()
		return nil, fmt.Errorf("not ready after a minute")
	}
}
