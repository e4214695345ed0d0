// Fourfold: the transformer's feed-forward sublayer on CPUs. Includes the whole public API.
#pragma once

#include "fourfold/activation.h"
#include "fourfold/attention.h"
#include "fourfold/bench.h"
#include "fourfold/embedding.h"
#include "fourfold/error.h"
#include "fourfold/ffn.h"
#include "fourfold/ffn_counts.h"
#include "fourfold/learn.h"
#include "fourfold/matrix.h"
#include "fourfold/norm.h"
#include "fourfold/position.h"
#include "fourfold/profile.h"
#include "fourfold/runtime.h"
#include "fourfold/tools.h"
#include "fourfold/transformer_block.h"
