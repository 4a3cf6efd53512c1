#!/usr/bin/env bash
# certificates.sh FOLDER NAME...: makes a certificate authority (ca.crt) and with it a server certificate for the DNS
# names and addresses (tls.crt, tls.key) in FOLDER, good for 30 days. What is there stays, as long as it is good.
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
cd "$folder"
names=$(printf '%s\n' "$@")
if [ -e names ] && [ "$(<names)" = "$names" ] && openssl x509 -in tls.crt -noout -checkend 86400 >/dev/null; then exit 0; fi
umask 077
new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
new_key ca.key
openssl req -x509 -new -key ca.key -days 30 -subj "/CN=agentd demo CA" -out ca.crt \
  -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
new_key tls.key
openssl req -new -key tls.key -subj "/CN=$1" -out tls.csr
{
  echo "basicConstraints=critical,CA:FALSE"
  echo "keyUsage=critical,digitalSignature"
  echo "extendedKeyUsage=serverAuth"
  echo "subjectKeyIdentifier=hash"
  echo "authorityKeyIdentifier=keyid"
  printf 'subjectAltName='
  for name in "$@"; do
    if [[ $name =~ ^[0-9.]+$ ]]; then printf 'IP:%s,' "$name"; else printf 'DNS:%s,' "$name"; fi
  done | sed 's/,$//'
} >tls.ext
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile tls.ext -out tls.crt 2>/dev/null
# The authority signs nothing else.
rm -f ca.key ca.srl tls.csr tls.ext
printf '%s\n' "$@" >names
