// Fourfold: the transformer's feed-forward sublayer on CPUs. Includes the whole public API.
#pragma once

#include "fourfold/activation.h"
#include "fourfold/attention.h"
#include "fourfold/encoder_block.h"
#include "fourfold/error.h"
#include "fourfold/ffn.h"
#include "fourfold/ffn_counts.h"
#include "fourfold/matrix.h"
#include "fourfold/profile.h"
#include "fourfold/runtime.h"
#include "fourfold/tools.h"
