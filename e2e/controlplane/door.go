package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// door is a way into the API server with the administrator's rights, as `kubectl proxy --unix-socket` is: a socket file can be reached
// from every network namespace, and a test needs neither TLS nor a token for it.
type door struct {
	server *http.Server
	client *http.Client
	target string
}

func openDoor(dir, target string) (*door, error) {
	transport, err := administrator(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "api.sock")
	// Left by a run that was killed.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	to := &url.URL{Scheme: "https", Host: target}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1,
	}
	opened := &door{&http.Server{Handler: proxy}, &http.Client{Transport: transport}, to.String()}
	go opened.server.Serve(listener)
	return opened, nil
}

func administrator(dir string) (*http.Transport, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	certificate, err := tls.LoadX509KeyPair(at("admin.crt"), at("admin.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(at("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", at("ca.crt"))
	}
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
		ForceAttemptHTTP2: true,
	}, nil
}

// sayWhenReady prints "ready" once the API server says of itself that it is.
func (d *door) sayWhenReady(ctx context.Context) {
	for ctx.Err() == nil {
		if response, err := d.client.Get(d.target + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				fmt.Println("ready")
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (d *door) Close() error { return d.server.Close() }
