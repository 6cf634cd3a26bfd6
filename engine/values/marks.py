"""What a mark beside a head means: what changes its circuits beyond its four matrices."""

from __future__ import annotations

MARKS = {
    "ALiBi": "a penalty that grows with the distance of query and key is added to the scores",
    "added key and value": "one more key and value than tokens, learned or zero, takes its share of every row",
    "attention sink": "a learned number takes part in the softmax, so that a row of the map sums to less than one",
    "compressed keys": "keys far away are pooled before they are looked at",
    "convolution beside the heads": "a part of the output comes from a convolution and from no head",
    "differential pairs": "heads come in pairs, and the map of one is subtracted from that of the other",
    "dynamic mask": "which keys are seen depends on the values",
    "hashed attention": "queries look only at keys that fall into the same bucket",
    "keys and values of another layer": "W_K and W_V are those of an earlier layer, which this one looks at again",
    "landmarks": "attention is approximated through a few averages of the tokens",
    "latent norm": "keys and values come by way of a latent whose norm depends on the token",
    "low-rank adapters": "matrices of low rank are added where a block is used again; W_Q, W_K, W_V are without them",
    "output gate": "what a head writes is multiplied by a gate that the token decides, so OV depends on the token",
    "output norm": "what the heads write together is normed before W_O, so OV depends on the token",
    "output scaled by a sink": "what a head writes is scaled by how much it looks at the tokens and not at a sink",
    "outputs beyond OV": "what a head writes takes in more than its values: a gate, a norm or a factor",
    "query/key bias": "b_Q and b_K add terms to the scores that QK leaves out",
    "query/key norm": "queries and keys are normed before they meet, so the scores are QK's only up to that norm",
    "relative position bias": "a learned number for each distance of query and key is added to the scores",
    "relative position terms": "terms of content with position are added to the scores; QK is that of content alone",
    "residual convolution": "a convolution of the values is added to what the heads write",
    "scale for each head": "scores are multiplied by a number that each head has learned",
    "scores beyond QK": "scores take in more than queries and keys: positions, a norm, a cap or a bias",
    "short convolution": "keys or values are mixed with those of the tokens just before",
    "soft cap": "scores are pressed below a limit by a hyperbolic tangent",
    "terms beside the heads": "what the heads write is changed by terms that none of their matrices holds",
    "value norm": "values are normed, so OV depends on the token",
    "value scale": "values are multiplied by a number that is not in W_V",
    "weights shared by layers": "other layers have the very same matrices",
}
"""Every mark, and what it says of a head."""
