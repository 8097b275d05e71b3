package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// publicRoots are the certification authorities that Mozilla trusts, as PEM, for a service with an ordinary
// certificate. They come from a Go module, pinned by go.sum: the ones of the machine that builds would make
// every machine's image another. An authority that is only trusted for certificates up to some date is left
// out, since PEM can't say so: too few are trusted rather than too many.
func publicRoots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if certificate, err := x509.ParseCertificate(root.Certificate); err == nil {
			fmt.Fprintf(&out, "# %s\n", certificate.Subject)
		}
		// Writing to memory doesn't fail.
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return out.Bytes()
}
