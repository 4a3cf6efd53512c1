#!/usr/bin/env python3
"""Judges the signature of an agent's card by the official Python SDK (PyPI a2a-sdk).

Use: a2a_card_signature.py CARD.json CERTIFICATE.pem

The card must be signed with the key of the certificate, and must no longer be when a word of it was changed.
"""
import copy, json, sys

from cryptography import x509

from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier

card, certificate = (open(path, 'rb').read() for path in sys.argv[1:])
card = json.loads(card)
key = x509.load_pem_x509_certificate(certificate).public_key()
kids = []
verify = create_signature_verifier(lambda kid, jku: kids.append(kid) or key, ['ES256'])
verify(parse_agent_card(copy.deepcopy(card)))
print('ok signature of', kids[0])
card['description'] += '!'
try:
    verify(parse_agent_card(card))
except InvalidSignaturesError:
    print('ok changed card')
else:
    sys.exit('a changed card was taken for signed')
