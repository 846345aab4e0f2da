package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of this control plane.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// makeCredentials writes an authority, the server's certificate, an administrator's kubeconfig and the key that signs tokens; or nothing,
// if an earlier run has written them. The kubeconfig comes last: where it is, everything is.
func makeCredentials(dir string, address net.IP) error {
	kubeconfig := filepath.Join(dir, "admin.kubeconfig")
	if _, err := os.Stat(kubeconfig); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	caPEM := encode("CERTIFICATE", ca.certificate.Raw)
	server, serverKey, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{address, net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"kubernetes.default.svc", "localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	admin, adminKey, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	_, accountsKey, err := newKey()
	if err != nil {
		return err
	}
	files := []struct {
		name    string
		content []byte
	}{
		{"ca.crt", caPEM},
		{"server.crt", server}, {"server.key", serverKey},
		{"admin.crt", admin}, {"admin.key", adminKey},
		{"accounts.key", accountsKey},
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file.name), file.content, 0o600); err != nil {
			return err
		}
	}
	return writeKubeconfig(kubeconfig, "https://"+net.JoinHostPort(address.String(), port), caPEM, admin, adminKey)
}

// writeKubeconfig writes it as JSON, which is YAML too.
func writeKubeconfig(path, server string, ca, certificate, key []byte) error {
	text, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "e2e",
		"clusters": []any{map[string]any{"name": "e2e", "cluster": map[string]any{
			"server": server, "certificate-authority-data": ca,
		}}},
		"users": []any{map[string]any{"name": "admin", "user": map[string]any{
			"client-certificate-data": certificate, "client-key-data": key,
		}}},
		"contexts": []any{map[string]any{"name": "e2e", "context": map[string]any{
			"cluster": "e2e", "user": "admin",
		}}},
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func newAuthority() (*authority, error) {
	key, _, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "e2e"},
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	if err := date(template); err != nil {
		return nil, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(raw)
	return &authority{certificate, key}, err
}

// issue completes and signs a certificate; both results are PEM.
func (a *authority) issue(template *x509.Certificate) (certificate, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if err := date(template); err != nil {
		return nil, nil, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	return encode("CERTIFICATE", raw), keyPEM, err
}

// date gives a certificate a number and a month; an hour back, because clocks of tests differ.
func date(template *x509.Certificate) error {
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	template.SerialNumber = number
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(0, 1, 0)
	return err
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	return key, encode("EC PRIVATE KEY", raw), err
}

func encode(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}
